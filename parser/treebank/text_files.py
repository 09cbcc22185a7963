"""Reading text files line by line, compressed or not, in bounded memory."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TextIO

from parser.files import complete_gzip

MAX_LINE_LENGTH = 1 << 20
"""Characters. Longer lines show that a file has another format, or no line ends."""


class UnboundedError(ValueError):
    """A line, or a sentence, that is too large for the memory. `line` is its line number, from 1."""

    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line


@contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Open a text file, a `.gz` file or, for "-", standard input. Bytes that are not UTF-8 become surrogates.

    Raises ValueError for a damaged `.gz` file.
    """
    # With newline="\n" only \n ends a line, and a \r before it is preserved for the output.
    how = {"mode": "rt", "encoding": "utf-8", "errors": "surrogateescape", "newline": "\n"}
    if path == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed")
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")  # type: ignore[union-attr]
        yield sys.stdin
    elif path.endswith(".gz"):
        with complete_gzip(path), gzip.open(path, **how) as file:  # type: ignore[call-overload]
            yield file
    else:
        with open(path, **how) as file:  # type: ignore[call-overload]
            yield file


def bounded_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file. Raises UnboundedError at the first line of more than `MAX_LINE_LENGTH`."""
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
