"""Messages while a command runs."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, TextIO

from tqdm import tqdm

PROGRESS_BAR: dict[str, Any] = {"delay": 2, "leave": False, "disable": None}
"""Options of a progress bar for work that is usually short: shown only in a terminal, after two seconds."""


def say(text: str) -> None:
    """Write a line to standard output, above a progress bar, and flush it."""
    _write(text, sys.stdout)


def warn(text: str) -> None:
    """Write a line to standard error, above a progress bar."""
    _write(text, sys.stderr)


def _write(text: str, file: TextIO | None) -> None:
    """If the reader of a pipe or the terminal is gone, the work goes on without messages."""
    if file is None:
        return
    try:
        tqdm.write(text, file=file)
        file.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
