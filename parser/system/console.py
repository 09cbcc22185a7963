"""Messages while a command runs, and how they quote the content of files."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, TextIO

from tqdm import tqdm

PROGRESS_BAR: dict[str, Any] = {"delay": 2, "leave": False, "disable": None}
"""Options of a progress bar that is shown only in a terminal, and only after two seconds."""
MAX_QUOTE_LENGTH = 60
"""Characters; longer text is truncated."""


def counted(count: int, noun: str) -> str:
    """As `1 file` or `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def say(text: str) -> None:
    """Write a line to standard output, above a progress bar, and flush it."""
    _write(text, sys.stdout)


def warn(text: str) -> None:
    """Write a line to standard error, above a progress bar."""
    _write(text, sys.stderr)


def _write(text: str, file: TextIO | None) -> None:
    """Write a line. If the pipe or terminal is closed, the program continues without messages."""
    if file is None:
        return
    try:
        tqdm.write(text, file=file)
        file.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def quoted(text: str) -> str:
    """Quote text, truncated if it is long, with escapes for characters that cannot be printed."""
    return repr(shortened(text))


def shortened(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Truncate text if it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[:length]}…"
