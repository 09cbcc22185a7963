"""The base class of all settings, and readable lines of their faults."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from parser.system import MOST_THREADS
from parser.system.console import counted, shortened

Count = Annotated[int, Field(gt=0, le=1_000_000_000)]
Size = Annotated[int, Field(gt=0, le=65_536)]
"""Size of a vector or a layer."""
Layers = Annotated[int, Field(gt=0, le=100)]
Threads = Annotated[int, Field(gt=0, le=MOST_THREADS)]
CONTRADICTION = "contradiction"
"""The type of pydantic's errors for settings that exclude each other."""
FAULTS_SHOWN = 10
MAX_KEY = 200
"""Maximum number of characters of a key in a message; with all its sections, a key can be long."""


class Settings(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_a_path(cls, value: Any) -> Any:
        texts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise ValueError("no string may hold NUL")
        return value


def contradiction_error(faults: Iterable[tuple[str, str]]) -> ValidationError:
    """Return an error for a model's validator, with a key for each fault. faults: keys and reasons."""
    return ValidationError.from_exception_data(
        "settings",
        [
            InitErrorDetails(
                type=PydanticCustomError(CONTRADICTION, "{why}", {"why": why}),
                loc=tuple(key.split(".")),
                input=None,
            )
            for key, why in faults
        ],
    )


def fault_lines(error: ValidationError, section: str = "") -> list[str]:
    """A line "key: fault" for each of the first faults, and one with the number of further faults.

    section: the key of the section that contains the settings. Values are not quoted, since they can be of
    any length.
    """
    details = error.errors(include_input=False, include_url=False)
    lines = []
    for detail in details[:FAULTS_SHOWN]:
        key = ".".join((*([section] if section else []), *keys_of(detail)))
        message = "unknown key" if detail["type"] == "extra_forbidden" else shortened(detail["msg"])
        lines.append(f"{shortened(key, MAX_KEY)}: {message}" if key else message)
    return [*lines, *more_faults(len(details) - len(lines))]


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Add the name of a file to each ValueError of the block."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{file}: {'; '.join(fault_lines(error))}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def more_faults(count: int) -> list[str]:
    """A line with the number of faults that are not shown, if there are any."""
    return [f"and {counted(count, 'more fault')}"] if count > 0 else []


def unknown_key(key: str, known: Collection[str]) -> str:
    """The message for an unknown key. known: the keys that exist; the key itself if another `kind` has it."""
    if key in known:
        return "unknown key for this kind of settings; another kind has it"
    near = difflib.get_close_matches(shortened(key, MAX_KEY), known, n=1, cutoff=0.5)
    return f"unknown key; did you mean {near[0]}?" if near else f"unknown key; known are {', '.join(known)}"


def keys_of(detail: ErrorDetails) -> tuple[str, ...]:
    """The keys of an error, without parts such as "<file>", which name alternatives of a type."""
    return tuple(part for part in map(str, detail["loc"]) if not part.startswith("<"))
