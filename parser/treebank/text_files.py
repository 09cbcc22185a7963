"""Reading text files line by line, compressed or not, in bounded memory."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TextIO

MAX_LINE_LENGTH = 1 << 20
"""Characters. What is longer is a file of another kind, or one without line ends."""


class UnboundedError(ValueError):
    """A line, or what belongs together, that is too large to be held; `line` is its number, from 1."""

    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line


@contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Open a file, a `.gz` file or "-", standard input; bytes that are not UTF-8 become surrogates.

    Raises ValueError for a broken `.gz` file.
    """
    # newline="\n": lines end at \n alone, and a \r before it is kept for the output.
    how = {"mode": "rt", "encoding": "utf-8", "errors": "surrogateescape", "newline": "\n"}
    if path == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed")
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")  # type: ignore[union-attr]
        yield sys.stdin
    elif path.endswith(".gz"):
        try:
            with gzip.open(path, **how) as file:  # type: ignore[call-overload]
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: not a whole gzip file: {error}") from None
    else:
        with open(path, **how) as file:  # type: ignore[call-overload]
            yield file


def bounded_lines(file: TextIO) -> Iterator[str]:
    """A file's lines. Raises UnboundedError at one longer than `MAX_LINE_LENGTH`, without reading all of it."""
    for number in count(1):
        line = file.readline(MAX_LINE_LENGTH + 1)
        if len(line) > MAX_LINE_LENGTH:
            message = (
                f"the line is longer than {MAX_LINE_LENGTH:,} characters: is this a text file with line ends?"
            )
            raise UnboundedError(number, message)
        if not line:
            return
        yield line
