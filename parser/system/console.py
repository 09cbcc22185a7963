"""Messages of commands: the one place that writes to a terminal, and how the content of files is quoted.

Names of files may hold anything: what could command a terminal, or look like another line, is escaped here.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

MAX_QUOTE_LENGTH = 60
"""Characters; longer text is truncated."""


class LinesError(ValueError):
    """An error of one line or more. A line end within a line is not taken for the end of it."""

    def __init__(self, *lines: str):
        super().__init__(*lines)

    def __str__(self) -> str:
        return "\n".join(self.args)


def lines_of(error: Exception) -> Sequence[str]:
    """What an error says, line by line."""
    return error.args if isinstance(error, LinesError) else (str(error),)


def counted(count: int, noun: str) -> str:
    """As `1 file` or `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(values: Sequence[object], most: int) -> str:
    """The first `most` values; if there are more, with their number."""
    shown = ", ".join(map(str, values[:most]))
    return shown if len(values) <= most else f"{shown}, … ({len(values):,} in all)"


def say(*lines: str) -> None:
    """Write lines to standard output, above a progress bar, and flush it."""
    _write(lines, sys.stdout)


def warn(*lines: str) -> None:
    """Write lines to standard error, above a progress bar."""
    _write(lines, sys.stderr)


def _write(lines: Sequence[str], file: TextIO | None) -> None:
    """Write printable lines. If the pipe or terminal is closed, the program continues without messages."""
    if file is None:
        return
    try:
        bars = sys.modules.get("tqdm")  # without it there is no bar, and the libraries do not need it
        write = bars.tqdm.write if bars else print
        # With its end in one piece, between those of other processes: PYTHONUNBUFFERED writes each at once.
        text = "".join(f"{printable(line)}\n" for line in lines)
        encoding = getattr(file, "encoding", None) or "utf-8"  # which may lack letters of a treebank
        write(text.encode(encoding, "backslashreplace").decode(encoding), file=file, end="")
        file.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def printable(text: str) -> str:
    """With escapes for characters that cannot be printed, as in Python's literals."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def quoted(text: str) -> str:
    """Quote text, truncated if it is long, with escapes for characters that cannot be printed."""
    return repr(shortened(text))


def as_name(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Truncated if it is long, and quoted only if it has characters that cannot be printed."""
    return shortened(text, length) if text.isprintable() else quoted(text)


def shortened(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Truncate text if it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[:length]}…"


def in_words(seconds: float) -> str:
    """As `a few seconds`, `about 40 s`, `about 12 min` or `about 2.5 h`."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
