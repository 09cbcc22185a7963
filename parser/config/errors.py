"""Readable lines for pydantic's validation errors: of settings, and of configs with file and line."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from parser.system.console import counted, shortened
from parser.system.settings import CONTRADICTION

FAULTS_SHOWN = 10
MAX_KEY = 200
"""Maximum number of characters of a key in a message; with all its sections, a key can be long."""
KeyPath = tuple[str, ...]


def fault_lines(error: ValidationError, section: str = "") -> list[str]:
    """A line "key: fault" for each of the first faults, and one with the number of further faults.

    section: the key of the section that contains the settings. Values are not quoted, since they can be of
    any length.
    """
    details = error.errors(include_input=False, include_url=False)
    lines = [_line(detail, section) for detail in details[:FAULTS_SHOWN]]
    return [*lines, *more_faults(len(details) - len(lines))]


def more_faults(count: int) -> list[str]:
    """A line with the number of faults that are not shown, if there are any."""
    return [f"and {counted(count, 'more fault')}"] if count > 0 else []


def _line(detail: ErrorDetails, section: str) -> str:
    key = ".".join((*([section] if section else []), *_keys(detail)))
    message = shortened(detail["msg"])
    if detail["type"] == "extra_forbidden":
        message = "unknown key"
    return f"{shortened(key, MAX_KEY)}: {message}" if key else message


def config_fault_lines(
    error: ValidationError,
    places: Mapping[KeyPath, str],
    path: str,
    kind: type[BaseModel],
    section: KeyPath = (),
) -> list[str]:
    """A line "file:line: key: fault, and what to do" for each of the first faults of a config.

    places: the place of each key. path: the config file. kind: the class of the section.
    """
    details = _without_alternatives(error.errors())
    shown = details[:FAULTS_SHOWN]
    lines = [_config_line(detail, places, path, kind, section) for detail in shown]
    return [*lines, *(f"{path}: {more}" for more in more_faults(len(details) - len(shown)))]


def _without_alternatives(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out "must be 'paper'" for a number out of range: the error about the range is enough."""
    numbers = {
        detail["loc"][:-1] for detail in details if detail["type"] in ("greater_than", "finite_number")
    }
    return [d for d in details if d["type"] != "literal_error" or d["loc"][:-1] not in numbers]


def _config_line(
    detail: ErrorDetails, places: Mapping[KeyPath, str], path: str, kind: type[BaseModel], section: KeyPath
) -> str:
    keys = (*section, *_keys(detail))
    known = max((n for n in range(len(keys) + 1) if keys[:n] in places), default=0)
    place = places.get(keys[:known], path)
    if known and detail["type"] not in ("extra_forbidden", "missing", CONTRADICTION):
        keys = keys[:known]  # the rest names an alternative of a type, not a key
    name = shortened(".".join(keys), MAX_KEY)
    if detail["type"] == "extra_forbidden":
        return f"{place}: {name}: {unknown_key(keys[-1], _fields(kind, keys[len(section) : -1]))}"
    message = f"{place}: {name}: {detail['msg'][0].lower()}{detail['msg'][1:]}"
    if detail["type"] in ("missing", CONTRADICTION):
        return message
    message += f", not {shortened(repr(detail['input']))}"
    if detail["type"] in ("model_type", "dict_type"):
        message += "; write {} for its defaults, or its keys"
    elif isinstance(detail["input"], bool):
        message += " (YAML reads yes, no, on and off as true and false: put the word into quotes)"
    return message


def unknown_key(key: str, known: Collection[str]) -> str:
    """The message for an unknown key. known: the keys that exist."""
    near = difflib.get_close_matches(shortened(key, MAX_KEY), known, n=1, cutoff=0.5)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; known are {', '.join(known)}"


def _keys(detail: ErrorDetails) -> KeyPath:
    """The keys of an error, without parts such as "<file>", which name alternatives of a type."""
    return tuple(part for part in map(str, detail["loc"]) if not part.startswith("<"))


def _fields(kind: type[BaseModel], section: KeyPath) -> list[str]:
    """The keys allowed in a section."""
    kinds = [kind]
    for key in section:
        annotations = [each.model_fields[key].annotation for each in kinds if key in each.model_fields]
        inner = [found for annotation in annotations for found in _classes(annotation)]
        kinds = inner or kinds  # if there are none, the key is a name chosen by the user
    return list(dict.fromkeys(name for each in kinds for name in each.model_fields))


def _classes(annotation: Any) -> list[type[BaseModel]]:
    """The classes of settings that occur in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _classes(part)]
