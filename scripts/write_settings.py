"""Write docs/settings.md: every setting of the three kinds of config, from the classes that validate them.

python scripts/write_settings.py            writes the page
python scripts/write_settings.py --check    exits with 1 if the page is out of date
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from parser.config.settings import Config
from parser.speed.measuring.settings import SpeedConfig
from parser.system.settings import Settings
from parser.tables.settings import TableConfig

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
COMMANDS: dict[str, tuple[type[Settings], str]] = {
    "Training": (Config, "`stack-parser train CONFIG`, as in `configs/*.yaml`."),
    "Speed measurements": (SpeedConfig, "`stack-parser speed CONFIG`, as in `configs/speed/*.yaml`."),
    "Tables of training runs": (TableConfig, "`stack-parser table CONFIG`, as in `configs/tables/*.yaml`."),
}
INTRODUCTION = """\
# Settings

<!-- Written by scripts/write_settings.py from the classes that validate configs. Do not edit. -->

A config is a YAML file. Unknown keys and values of the wrong type are refused, with their line.
`--set KEY=VALUE` of `train` and `speed` changes one setting, as in `--set training.batch_size=32`. A setting
without a default is required, or is a group of settings with its own table. `NAME` stands for any name."""
NO_LIMIT = 1_000_000_000
"""A limit from here on is there to catch overflows, and is not shown."""
Schema = dict[str, Any]


class Section(NamedTuple):
    """The settings of one class. key: dotted, empty for those at the top of a config."""

    key: str
    schema: Schema


def page() -> str:
    parts = [INTRODUCTION]
    for title, (settings, use) in COMMANDS.items():
        whole = settings.model_json_schema()
        parts.append(f"## {title}\n\n{use}")
        parts += [_table(section) for section in _sections("", whole, whole)]
    return "\n\n".join(parts) + "\n"


def _sections(key: str, schema: Schema, whole: Schema) -> Iterator[Section]:
    """The section of a class, then those of the classes that its settings consist of."""
    yield Section(key, schema)
    for name, field in schema["properties"].items():
        for place, reference in _references(_joined(key, name), field):
            yield from _sections(place, whole["$defs"][reference.rpartition("/")[2]], whole)


def _references(key: str, field: Schema) -> Iterator[tuple[str, str]]:
    """The classes that a setting consists of, each with its dotted key."""
    if "$ref" in field:
        yield key, field["$ref"]
    for choice in field.get("anyOf") or field.get("oneOf", []):
        yield from _references(key, choice)
    if isinstance(value := field.get("additionalProperties"), dict):
        yield from _references(f"{key}.NAME", value)


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _table(section: Section) -> str:
    key, schema = section
    lines = [f"### `{key}`{_alternative(schema)}", ""] if key else []
    if "description" in schema and key:
        lines += [_one_line(schema["description"]), ""]
    lines += ["| setting | type | default | |", "|---|---|---|---|"]
    for name, field in schema["properties"].items():
        cells = (
            f"`{_joined(key, name)}`",
            _type(field),
            "" if name in schema.get("required", []) else _default(field),
            _one_line(field.get("description", "")),
        )
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _alternative(schema: Schema) -> str:
    """For the title of a class that is one of several for its key: they are told by their kinds."""
    kind = schema["properties"].get("kind", {}).get("const")
    return f" of the kind `{kind}`" if kind else ""


def _default(field: Schema) -> str:
    """As YAML has it. A group's own table has the defaults of its settings."""
    if "$ref" in field:
        return ""
    value = field["default"]
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def _type(field: Schema, end: str = "") -> str:
    """In words, with the limits. end: s for the plural."""
    if choices := field.get("anyOf") or field.get("oneOf"):
        return ", or ".join(dict.fromkeys(_type(choice, end) for choice in choices))
    if "$ref" in field:
        return "settings (below)"
    if "const" in field or "enum" in field:
        return _words(field.get("enum") or [field["const"]])
    match field.get("type"):
        case "boolean":
            return "`true` or `false`"
        case "null":
            return "`null`"
        case "array":
            items = field.get("prefixItems") or [field["items"]]
            count = f"{len(items)} " if "prefixItems" in field else ""
            return f"list{end} of {count}{_type(items[0], 's')}"
        case "object":
            keys, values = field.get("propertyNames", {}).get("enum"), field.get("additionalProperties")
            target = _type(values, "s") if isinstance(values, dict) else "any values"
            return f"mapping{end} from {_words(keys) if keys else 'names'} to {target}"
        case str(kind):
            return kind + end + _limits(field)
        case _:
            return "any value"


def _words(values: list[Any]) -> str:
    *others, last = (f"`{value}`" for value in values)
    return f"{', '.join(others)} or {last}" if others else last


def _limits(field: Schema) -> str:
    lowest, above = field.get("minimum"), field.get("exclusiveMinimum")
    if field.get("type") == "integer" and above is not None:
        lowest, above = above + 1, None
    greatest, below = field.get("maximum"), field.get("exclusiveMaximum")
    if greatest is not None and greatest >= NO_LIMIT:
        greatest = None
    if lowest is not None and greatest is not None:
        return f", {lowest:,} to {greatest:,}"
    limits = (("at least", lowest), ("above", above), ("at most", greatest), ("below", below))
    found = [f"{word} {limit:,}" for word, limit in limits if limit is not None and abs(limit) < NO_LIMIT]
    return ", " + " and ".join(found) if found else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if it is out of date"
    )
    if not arguments.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print(f"docs/{PAGE.name} is out of date: run `python scripts/write_settings.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
