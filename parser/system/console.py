"""Messages of commands: writes to the terminal, and quotes the content of files.

File names may contain anything: characters that control a terminal or end a line are escaped here.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

MAX_QUOTE_LENGTH = 60
"""Maximum characters of a quotation; longer text is truncated."""


class LinesError(ValueError):
    """An error of one or more lines. Line ends within the lines are escaped like other characters."""

    def __init__(self, *lines: str):
        super().__init__(*lines)

    def __str__(self) -> str:
        return "\n".join(self.args)


def lines_of(error: Exception) -> Sequence[str]:
    """Return the message of an error, line by line."""
    return error.args if isinstance(error, LinesError) else (str(error),)


def counted(count: int, noun: str) -> str:
    """Return text such as `1 file` or `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(values: Sequence[object], most: int) -> str:
    """Return the first `most` values as text; if there are more, with their number."""
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
        tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)  # if it is not loaded, there is no bar
        write = tqdm.write if tqdm and getattr(tqdm, "_instances", None) else print
        # One string with the line ends: unbuffered, other processes could write between several strings.
        text = "".join(f"{printable(line)}\n" for line in lines)
        encoding = getattr(file, "encoding", None) or "utf-8"  # may lack letters of a treebank
        write(text.encode(encoding, "backslashreplace").decode(encoding), file=file, end="")
        file.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def printable(text: str) -> str:
    """Escape characters that cannot be printed, like in Python's literals."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def quoted(text: str) -> str:
    """Quote text. It is truncated if it is long, and characters that cannot be printed are escaped."""
    return repr(shortened(text))


def as_name(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Truncate text if it is long, and quote it only if it contains characters that cannot be printed."""
    return shortened(text, length) if text.isprintable() else quoted(text)


def shortened(text: str, length: int = MAX_QUOTE_LENGTH) -> str:
    """Truncate text if it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[:length]}…"


def in_words(seconds: float) -> str:
    """Return text such as `a few seconds`, `about 40 s`, `about 12 min` or `about 2.5 h`."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
