"""Checked access to the contents of JSON files, with errors that name the place."""

from __future__ import annotations

import json
import reprlib
from pathlib import Path
from typing import TypeVar

from parser.system.files import content_of

JsonT = TypeVar("JsonT", dict, list, str, int)

TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}


def read_records(path: Path, key: str) -> list:
    """The list under `key`. Raises ValueError for a file that is not JSON or does not contain the list."""
    return field(read_json(path), key, list, str(path))


def read_json(path: Path) -> object:
    """The content of a JSON file. Raises ValueError for a file that is not JSON."""
    try:
        return json.loads(content_of(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None


def field(record: object, key: str, kind: type[JsonT], place: str) -> JsonT:
    """The value of a key.

    Raises ValueError if the record is not an object, or the value is missing or of another type.
    """
    holder = checked_type(record, dict, "this", place)
    if key not in holder:
        raise ValueError(f"{place}: {key!r} is missing")
    return checked_type(holder[key], kind, repr(key), place)


def checked_type(value: object, kind: type[JsonT], name: str, place: str) -> JsonT:
    """Return the value. Raises ValueError if its type is different. Booleans do not count as numbers."""
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise ValueError(f"{place}: {name} must be {TYPE_NAMES[kind]}, and is {reprlib.repr(value)}")


def record_index(value: object, total: int, name: str, place: str) -> int:
    """Return the value as an index. Raises ValueError unless it is an integer from 0 to total - 1."""
    number = checked_type(value, int, name, place)
    if not 0 <= number < total:
        raise ValueError(f"{place}: {name} {number} does not exist: the last is {total - 1}")
    return number


def image_index(record: object, place: str) -> int:
    """The image of a question or scene. Raises ValueError if it is missing or negative."""
    number = field(record, "image_index", int, place)
    if number < 0:
        raise ValueError(f"{place}: 'image_index' must count from 0, and is {number}")
    return number
