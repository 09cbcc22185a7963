"""pydantic's validation errors as lines for people."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from parser.former_names import new_name
from parser.quoting import shortened

FAULTS_SHOWN = 10


def fault_lines(error: ValidationError, section: str = "") -> list[str]:
    """A line "key: fault" for each of the first faults, and one with the number of the others.

    section: key below which the settings stand. What was found is not quoted, for it may be of any length.
    """
    details = error.errors(include_input=False, include_url=False)
    lines = [_line(detail, section) for detail in details[:FAULTS_SHOWN]]
    return [*lines, *more_faults(len(details) - len(lines))]


def more_faults(count: int) -> list[str]:
    """A line that says how many faults are not shown, if any."""
    return [f"and {count:,} more faults"] if count > 0 else []


def _line(detail: ErrorDetails, section: str) -> str:
    key = ".".join(map(str, ((section,) if section else ()) + detail["loc"]))
    message = shortened(detail["msg"])
    if detail["type"] == "extra_forbidden":
        now = new_name(key)
        message = f"this setting is now called {now}" if now else "unknown key"
    return f"{shortened(key)}: {message}" if key else message
