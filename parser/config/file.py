"""Reading configs strictly: every error names its file and line, and says what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from parser.config.data_folder import DATA_FOLDER
from parser.config.errors import KeyPath, config_fault_lines
from parser.config.settings import Config
from parser.config.yaml_loading import ConfigLoader, RefusedYAMLError, load
from parser.system.console import LinesError, quoted, shortened
from parser.system.files import content_of

AnyConfig = TypeVar("AnyConfig", bound=BaseModel)
VARIABLE = re.compile(r"\$\{(\w+)\}")


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
        self._refuse_other_variables()

    def _refuse_other_variables(self) -> None:
        """Raises ConfigError for a value with an environment variable that nothing replaces.

        A `command` is left out: the shell that runs it knows all variables.
        """
        for key_path, text in _texts(self._content, ()):
            others = [name for name in VARIABLE.findall(text) if name != DATA_FOLDER]
            if others and key_path[-1:] != ("command",):
                lengths = range(len(key_path), 0, -1)  # keys that were merged have no place of their own
                known = (self._places[key_path[:n]] for n in lengths if key_path[:n] in self._places)
                raise ConfigError(
                    f"{next(known, self._path)}: {shortened('.'.join(key_path))}: "
                    f"${{{shortened(others[0])}}} is not replaced: of environment variables, only "
                    f"${{{DATA_FOLDER}}} may be in a config; write its value"
                )

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
        loader = ConfigLoader(content_of(path).decode())
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{path}:1: a config has keys and values, as in configs/")
        places = _places(node, path)  # constructing the values changes the nodes
        return loader.construct_document(node), places
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
    except RefusedYAMLError as error:
        raise ConfigError(f"{shown}: {error.problem}") from None
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
