"""Write docs/public-names.txt: what a release promises to keep, see docs/versions.md.

python scripts/write_public_names.py

Run it once per release, when the release's number is in `parser/system/version.py`. Until the next release, a
test compares the program with the list, and CHANGELOG.md has to name each difference.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from starlette.routing import Route

import parser
from parser import client
from parser.commands.arguments import argument_parser
from parser.config.description import sections
from parser.evaluation.measures import TEXT_MEASURES
from parser.evaluation.scores import Scores
from parser.models.model_files import DOCUMENTS, FILES, FORMAT
from parser.service import application, operation, typed_messages, typed_protocol, udpipe_protocol
from parser.service.operation import Metrics
from parser.speed.measuring.cells import SpeedConfig
from parser.system.settings import Settings
from parser.system.version import __version__
from parser.training.config import Config
from parser.training.table import TableConfig

ROOT = Path(__file__).parents[1]
LIST, CHANGELOG = ROOT / "docs" / "public-names.txt", ROOT / "CHANGELOG.md"
CONFIGS: dict[str, type[Settings]] = {"train": Config, "speed": SpeedConfig, "table": TableConfig}
OF_SCORES = "uas", "las", "percent", "as_dict"
"""The members of scores that docs/api.md lists; the others are internal."""
HEADER = "# The public names of version {}, see versions.md. Written by scripts/write_public_names.py."
UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
RELEASE = re.compile(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", re.MULTILINE)


class PublicName(NamedTuple):
    kind: str
    name: str
    """The name as written in CHANGELOG.md."""
    detail: str = ""
    """Arguments, defaults and types; if they differ, the name has changed."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}{self.detail and f' | {self.detail}'}"


def public_names() -> list[PublicName]:
    return [*_commands(), *_settings(), *_python(), *_client(), *_spacy(), *_service(), *_model()]


def _commands() -> Iterator[PublicName]:
    [commands] = [action for action in argument_parser()._actions if action.dest == "command"]
    for command, arguments in dict(commands.choices or {}).items():
        yield PublicName("command", command)
        for action in arguments._actions:
            if action.dest != "help":
                name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
                yield PublicName(command, name, _argument(action))


def _argument(action: argparse.Action) -> str:
    choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else ""
    default = "" if action.default in (None, False, "", [], ()) else f"default {action.default}"
    nargs = "" if action.nargs in (None, 0) else f"nargs {action.nargs}"
    return ", ".join(filter(None, (choices, nargs, default)))


def _settings() -> Iterator[PublicName]:
    for command, config in CONFIGS.items():
        for section in sections(config):
            for setting in section.settings:
                of_kind = f"kind {section.kind}" if section.kind else ""
                default = f"default {setting.default}" if setting.default else ""
                detail = ", ".join(filter(None, (of_kind, setting.type.replace("`", ""), default)))
                yield PublicName(f"setting of {command}", setting.key, detail)


def _python() -> Iterator[PublicName]:
    for name in parser.__all__:
        if name == "Scores":
            yield PublicName("parser", name)
            yield from (
                member for member in _methods("parser", Scores) if member.name.partition(".")[2] in OF_SCORES
            )
        elif name != "__version__":
            yield from _described(name, getattr(parser, name))
    yield from (PublicName("score", measure) for measure in Scores().as_dict())
    yield from (PublicName("score of text", measure) for measure in (*TEXT_MEASURES, "segmentation"))


def _client() -> Iterator[PublicName]:
    for name in client.__all__:
        value = getattr(client, name)
        yield PublicName("parser.client", name, _parameters(value))
        for member in _methods("", value):
            method = member.name.partition(".")[2]
            yield PublicName(f"parser.client.{name}", method, member.detail)


def _described(name: str, value: Any) -> Iterator[PublicName]:
    """The names of a member of `parser.__all__`. Users construct only those classes that are dataclasses."""
    is_class = inspect.isclass(value)
    yield PublicName("parser", name, "" if is_class and not is_dataclass(value) else _parameters(value))
    if is_class:
        yield from _members("parser", value)


def _members(kind: str, value: type) -> Iterator[PublicName]:
    fields: Any = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", ())
    yield from (PublicName(kind, f"{value.__name__}.{field}") for field in fields)
    yield from _methods(kind, value)


def _methods(kind: str, value: type) -> Iterator[PublicName]:
    """The public methods and properties of a class."""
    for name, member in vars(value).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            arguments = "" if isinstance(member, property) else _parameters(member)
            yield PublicName(kind, f"{value.__name__}.{name}", arguments)


def _parameters(function: Any) -> str:
    """The signature without types, which mypy checks."""
    described = inspect.signature(function)
    parameters = [one.replace(annotation=one.empty) for one in described.parameters.values()]
    return str(described.replace(parameters=parameters, return_annotation=described.empty))


def _spacy() -> Iterator[PublicName]:
    from parser.api.spacy_factory import TOKENIZER, make_component

    yield PublicName("spaCy", "stack_parser", _parameters(make_component))
    yield PublicName("spaCy", TOKENIZER)


def _service() -> Iterator[PublicName]:
    service: Any = SimpleNamespace(threads=None, admission=None, running=0, refused={})
    routes = (
        operation.operation_routes(service, service).routes,
        typed_protocol.typed_routes(service).routes,
        udpipe_protocol.udpipe_routes(service),
        application.page_routes().routes,
    )
    for route in chain.from_iterable(routes):
        assert isinstance(route, Route)
        yield PublicName("service", route.path, " ".join(sorted(route.methods or ())))
    for name, kind in vars(typed_messages).items():
        if inspect.isclass(kind) and kind.__module__ == typed_messages.__name__:
            for field, schema in TypeAdapter(kind).json_schema()["properties"].items():
                told = {key: value for key, value in schema.items() if key not in ("title", "description")}
                yield PublicName("/v1/parse", f"{name}.{field}", json.dumps(told))
    models: Any = ()
    yield from (PublicName("/v1/parse", f"status {status}") for status in typed_protocol.PROBLEMS)
    metrics = asyncio.run(Metrics(models, service).text()).decode()
    names = re.findall(r"^# HELP (stack_\w+)(?<!_created) ", metrics, re.MULTILINE)
    yield from (PublicName("metric", name) for name in names)


def _model() -> Iterator[PublicName]:
    yield PublicName("model", f"format {FORMAT}")
    yield from (PublicName("model", name) for name in (*FILES, *DOCUMENTS))


def as_text(names: list[PublicName]) -> str:
    return "\n".join([HEADER.format(__version__), *dict.fromkeys(map(str, names))]) + "\n"


def untold(names: list[PublicName], released: str, changelog: str) -> list[str]:
    """Lines added (+) and removed (-) since the release whose names CHANGELOG.md does not mention.

    released: content of the released list.
    """
    before, now = set(released.splitlines()[1:]), {str(name): name.name for name in names}
    unreleased = UNRELEASED.search(changelog)
    told = unreleased[1] if unreleased else ""
    came = [f"+ {line}" for line, name in now.items() if line not in before and not _has(told, name)]
    gone = [f"- {line}" for line in sorted(before - now.keys()) if not _has(told, _name_in(line))]
    return came + gone


def _has(text: str, name: str) -> bool:
    """Whether the text contains the name, and not only as a part of another name."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _name_in(line: str) -> str:
    return line.partition(": ")[2].partition(" | ")[0]


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    is_of_this = LIST.exists() and LIST.read_text(encoding="utf-8").startswith(HEADER.format(__version__))
    if is_of_this and __version__ in RELEASE.findall(CHANGELOG.read_text(encoding="utf-8")):
        print(
            f"{__version__} is released: its list stays as it is. What changes goes into CHANGELOG.md, below "
            "Unreleased; the next release has a list of its own",
            file=sys.stderr,
        )
        return 1
    LIST.write_text(as_text(public_names()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
