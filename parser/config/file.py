"""Reading configs strictly: every error names its file and line, and says what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import ConstructorError
from yaml.scanner import ScannerError

from parser.config.errors import KeyPath, config_fault_lines
from parser.config.settings import Config
from parser.system.console import LinesError, quoted, shortened


class ConfigLoader(yaml.SafeLoader):
    """A safe loader of YAML 1.1, extended to read 1e-3 as a number.

    A value that Python cannot construct, such as the date 2001-99-99, raises a YAML error, too.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
            shown = quoted(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            message = f"{shown} is not a valid {node.tag.rpartition(':')[2]}"
            raise ConstructorError(None, None, message, node.start_mark) from None

    def fetch_more_tokens(self) -> None:
        try:
            super().fetch_more_tokens()
        except (ValueError, ArithmeticError):
            message = "an escape sequence that is not a character"
            raise ScannerError(None, None, message, self.get_mark()) from None


ConfigLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


DEPTHS = {"[": 1, "{": 1, "]": -1, "}": -1}
MAX_DEPTH = 100
"""Maximum depth of nested brackets. The time that the library takes grows with its square."""


def load(text: str) -> Any:
    """Parse YAML. Raises yaml.YAMLError, and RecursionError if it is nested too deeply."""
    return yaml.load(_not_too_deep(text), Loader=ConfigLoader)


def _not_too_deep(text: str) -> str:
    """The text. Raises RecursionError if its brackets are nested too deeply.

    Brackets within strings are counted as well, but in a config these are balanced.
    """
    if max(accumulate(DEPTHS.get(character, 0) for character in text), default=0) > MAX_DEPTH:
        raise RecursionError
    return text


AnyConfig = TypeVar("AnyConfig", bound=BaseModel)


COMMANDS = {
    "treebank": "train",
    "rows": "table",
    "search": "table",
    "experiments": "speed",
    "external": "speed",
}
"""The command that a config is for, by keys that only its configs contain: each contains at least one."""


class ConfigError(LinesError):
    """A config cannot be used; the message says where and why."""


def read_config(path: Path, overrides: Sequence[str] = (), values: Mapping[str, Any] | None = None) -> Config:
    """The config of a training run.

    overrides: such as "training.batch_size=64". values: parsed overrides, by dotted key. Raises ConfigError,
    FileNotFoundError.
    """
    return ConfigFile(path, overrides, values).validated(Config)


def read_settings(path: Path, kind: type[AnyConfig]) -> AnyConfig:
    """The config in a file. kind: the class of the config. Raises ConfigError, FileNotFoundError."""
    return ConfigFile(path).validated(kind)


class ConfigFile:
    """The content of a config, and the place in the file of each key."""

    def __init__(self, path: Path, overrides: Sequence[str] = (), values: Mapping[str, Any] | None = None):
        """Raises ConfigError, FileNotFoundError."""
        self._path = str(path)
        self._content, self._places = _read(path)
        for override in overrides:
            _override(self._content, override, self._places)
        for name, value in (values or {}).items():
            _replace(self._content, tuple(name.split(".")), value, "set", self._places)

    def _refuse_other_commands(self, kind: type[BaseModel]) -> None:
        """Raises ConfigError, which names the right command, if this config is for another command."""
        own = [key for key in COMMANDS if key in kind.model_fields]
        if not own or any(key in self._content for key in own):
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
            lines = config_fault_lines(error, self._places, self._path, kind, section)
        raise ConfigError(*lines)


def _read(path: Path) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    """The content of a file, and the places of its keys. Raises ConfigError."""
    try:
        loader = ConfigLoader(_not_too_deep(path.read_text(encoding="utf-8")))
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{path}:1: a config has keys and values, as in configs/")
        places = _places(node, path)  # constructing the values changes the nodes
        return loader.construct_document(node), places
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{path}:{line}: not YAML: {shortened(str(error.problem))}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML in UTF-8: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: sections are nested too deeply, or one lies in itself") from None


def _places(node: yaml.MappingNode, path: Path) -> dict[KeyPath, str]:
    """The place of each key, as "file:line". Raises ConfigError for duplicate keys."""
    places: dict[KeyPath, str] = {}
    for key_path, line in _key_lines(node):
        if key_path in places:
            raise ConfigError(f"{path}:{line}: {shortened('.'.join(key_path))} is a duplicate key")
        places[key_path] = f"{path}:{line}"
    return places


def _key_lines(node: yaml.Node, above: KeyPath = ()) -> Iterator[tuple[KeyPath, int]]:
    """All keys with their line numbers, from 1."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            key_path = (*above, str(key.value))
            yield key_path, key.start_mark.line + 1
            yield from _key_lines(value, key_path)


def _override(content: dict[str, Any], override: str, places: dict[KeyPath, str]) -> None:
    name, equals, value = override.partition("=")
    key_path = tuple(name.split("."))
    shown = f"--set {shortened(override)}"
    if not equals or not all(key_path):
        raise ConfigError(f"{shown}: write it as section.key=value")
    try:
        _replace(content, key_path, load(value), shown, places)
    except (yaml.YAMLError, RecursionError):
        raise ConfigError(f"{shown}: {quoted(value)} is not YAML") from None


def _replace(
    content: dict[str, Any], key_path: KeyPath, value: Any, shown: str, places: dict[KeyPath, str]
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
        places.setdefault(key_path[:depth], shown)
    places.update({key_path: shown, **below})


def _key_paths(value: Any, above: KeyPath) -> Iterator[KeyPath]:
    """All keys below a key, in its value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*above, str(key))
            yield from _key_paths(inner, (*above, str(key)))
