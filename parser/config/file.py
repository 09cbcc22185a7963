"""Reading configs strictly: every error names its file and line, and says what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from parser.config.data_folder import DATA_FOLDER
from parser.config.yaml_loading import ConfigLoader, RefusedYAMLError, load
from parser.system.console import LinesError, quoted, shortened
from parser.system.files import content_of
from parser.system.settings import CONTRADICTION, FAULTS_SHOWN, MAX_KEY, keys_of, more_faults, unknown_key

AnyConfig = TypeVar("AnyConfig", bound=BaseModel)
KeyPath = tuple[str, ...]
VARIABLE = re.compile(r"\$\{(\w+)\}")
COMMANDS = {
    **{"treebank": "train", "rows": "table", "search": "table"},
    **{"experiments": "speed", "external": "speed"},
}
"""The command that a config is for, by keys that only its configs contain: each contains at least one."""


class ConfigError(LinesError):
    """A config cannot be used; the message says where and why."""


def read_settings(path: Path, kind: type[AnyConfig]) -> AnyConfig:
    """The config in a file. kind: the class of the config. Raises ConfigError, FileNotFoundError."""
    return ConfigFile(path).validated(kind)


class ConfigFile:
    """The content of a config, and where in the file each key is."""

    def __init__(self, path: Path, overrides: Sequence[str] = (), values: Mapping[str, Any] | None = None):
        """Raises ConfigError, FileNotFoundError."""
        self._path = str(path)
        self._content, self._locations = content_and_locations(path)
        for override in overrides:
            name, equals, text = override.partition("=")
            key_path, shown = tuple(name.split(".")), f"--set {shortened(override)}"
            if not equals or not all(key_path):
                raise ConfigError(f"{shown}: write it as section.key=value")
            try:
                _replace(self._content, key_path, load(text), shown, self._locations)
            except RefusedYAMLError as error:
                raise ConfigError(f"{shown}: {error.problem}") from None
            except (yaml.YAMLError, RecursionError):
                raise ConfigError(f"{shown}: {quoted(text)} is not YAML") from None
        for name, value in (values or {}).items():
            _replace(self._content, tuple(name.split(".")), value, "set", self._locations)
        self._refuse_other_variables()

    def _refuse_other_variables(self) -> None:
        """Raises ConfigError for a value with an environment variable that nothing relocations.

        A `command` is left out: the shell that runs it knows all variables.
        """
        for key_path, text in _texts(self._content, ()):
            others = [name for name in VARIABLE.findall(text) if name != DATA_FOLDER]
            if others and key_path[-1:] != ("command",):
                lengths = range(len(key_path), 0, -1)  # keys that were merged have no location
                known = (self._locations[key_path[:n]] for n in lengths if key_path[:n] in self._locations)
                raise ConfigError(
                    f"{next(known, self._path)}: {shortened('.'.join(key_path))}: "
                    f"${{{shortened(others[0])}}} is not replaced: of environment variables, only "
                    f"${{{DATA_FOLDER}}} may be in a config; write its value"
                )

    def _refuse_other_commands(self, kind: type[BaseModel]) -> None:
        """Raises ConfigError, which names the right command, if this config is for another command."""
        keys = [key for key in COMMANDS if key in kind.model_fields]
        if not keys or any(key in self._content for key in keys):
            return
        for key, command in COMMANDS.items():
            if key in self._content:
                raise ConfigError(
                    f"{self._path}: this is a config of `stack-parser {command}`: it has {key!r}"
                )

    def validated(self, kind: type[AnyConfig], section: KeyPath = ()) -> AnyConfig:
        """A section, by default the whole config, as an instance of `kind`. Raises ConfigError."""
        if not section:
            self._refuse_other_commands(kind)
        content = self._content
        for key in section:
            content = content.get(key) or {}
        try:
            return kind.model_validate(content)
        except ValidationError as error:
            details = error.errors()
        # Without "must be 'paper'" for a number out of range: the error about the range is enough.
        numbers = {each["loc"][:-1] for each in details if each["type"] in ("greater_than", "finite_number")}
        details = [
            each for each in details if each["type"] != "literal_error" or each["loc"][:-1] not in numbers
        ]
        shown = details[:FAULTS_SHOWN]
        lines = [_config_line(detail, self._locations, self._path, kind, section) for detail in shown]
        more = more_faults(len(details) - len(shown))
        raise ConfigError(*lines, *(f"{self._path}: {line}" for line in more))


def content_and_locations(path: Path) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    """The content of a file, and the location of each key as "file:line". Raises ConfigError, OSError."""
    try:
        loader = ConfigLoader(content_of(path).decode())
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{path}:1: a config has keys and values, as in configs/")
        locations = _locations(node, path)  # constructing the values changes the nodes
        return loader.construct_document(node), locations
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        problem = str(error.problem)
        fault = problem if isinstance(error, RefusedYAMLError) else f"not YAML: {shortened(problem)}"
        raise ConfigError(f"{path}:{line}: {fault}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML in UTF-8: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: sections are nested too deeply, or one lies in itself") from None


def _locations(node: yaml.MappingNode, path: Path) -> dict[KeyPath, str]:
    """Where each key is, as "file:line". Raises ConfigError for duplicate keys."""
    locations: dict[KeyPath, str] = {}
    for key_path, line in _key_lines(node):
        if key_path in locations:
            raise ConfigError(f"{path}:{line}: {shortened('.'.join(key_path))} is a duplicate key")
        locations[key_path] = f"{path}:{line}"
    return locations


def _key_lines(node: yaml.Node, above: KeyPath = ()) -> Iterator[tuple[KeyPath, int]]:
    """All keys with their line numbers, from 1."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            key_path = (*above, str(key.value))
            yield key_path, key.start_mark.line + 1
            yield from _key_lines(value, key_path)


def _replace(
    content: dict[str, Any], key_path: KeyPath, value: Any, shown: str, locations: dict[KeyPath, str]
) -> None:
    """Replace the value of a key. shown: where the new value comes from, for messages."""
    section = content
    for key in key_path[:-1]:
        inner = section.get(key)
        if not isinstance(inner, dict | None):
            raise ConfigError(f"{shown}: {shortened(key)} is a value, not a section")
        # A copy, because a YAML anchor can make several sections of a file the same object.
        section[key] = dict(inner or {})
        section = section[key]
    section[key_path[-1]] = value
    below = dict.fromkeys(_key_paths(value, key_path), shown)
    for depth in range(1, len(key_path)):
        locations.setdefault(key_path[:depth], shown)
    locations.update({key_path: shown, **below})


def _key_paths(value: Any, above: KeyPath) -> Iterator[KeyPath]:
    """All keys below a key, in its value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*above, str(key))
            yield from _key_paths(inner, (*above, str(key)))


def _texts(value: Any, key_path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """All texts in a value, each with the path of its key."""
    if isinstance(value, str):
        yield key_path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*key_path, str(key)))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, key_path)


def _config_line(
    detail: ErrorDetails, locations: Mapping[KeyPath, str], path: str, kind: type[BaseModel], section: KeyPath
) -> str:
    """A line "file:line: key: fault, and what to do".

    locations: where each key is. path: the config file. kind: the class of the section.
    """
    keys = (*section, *keys_of(detail))
    known = max((n for n in range(len(keys) + 1) if keys[:n] in locations), default=0)
    location = locations.get(keys[:known], path)
    if known and detail["type"] not in ("extra_forbidden", "missing", CONTRADICTION):
        keys = keys[:known]  # the rest names an alternative of a type, not a key
    name = shortened(".".join(keys), MAX_KEY)
    if detail["type"] == "extra_forbidden":
        return f"{location}: {name}: {unknown_key(keys[-1], _fields(kind, keys[len(section) : -1]))}"
    message = f"{location}: {name}: {detail['msg'][0].lower()}{detail['msg'][1:]}"
    if detail["type"] in ("missing", CONTRADICTION):
        return message
    message += f", not {shortened(repr(detail['input']))}"
    if detail["type"] in ("model_type", "dict_type"):
        message += "; write {} for its defaults, or its keys"
    elif isinstance(detail["input"], bool):
        message += " (YAML reads yes, no, on and off as true and false: put the word into quotes)"
    return message


def _fields(kind: type[BaseModel], section: KeyPath) -> list[str]:
    """The keys allowed in a section."""
    kinds = [kind]
    for key in section:
        annotations = [each.model_fields[key].annotation for each in kinds if key in each.model_fields]
        inner = [each for annotation in annotations for each in _classes(annotation)]
        kinds = inner or kinds  # if there are none, the key is a name chosen by the user
    return list(dict.fromkeys(name for each in kinds for name in each.model_fields))


def _classes(annotation: Any) -> list[type[BaseModel]]:
    """The classes of settings that occur in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [each for part in get_args(annotation) for each in _classes(part)]


def set_in(content: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key; does nothing if its section is null."""
    *sections, name = key.split(".")
    for section in sections:
        if content.get(section, {}) is None:
            return
        content = content.setdefault(section, {})
    content[name] = value


def flat(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted keys, such as "training.seed"."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = f"{above}{key}"
        values |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return values
