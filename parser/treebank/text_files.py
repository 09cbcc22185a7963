"""Reading text files line by line, compressed or not, in bounded memory."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from itertools import count
from typing import TextIO, cast

from parser.system.files import complete_gzip, named_errors

BYTE_ORDER_MARK = "\ufeff"
MAX_LINE_LENGTH = 1 << 20
"""In characters. Longer lines show that a file has another format, or no line ends."""
TOO_LONG = f"the line is longer than {MAX_LINE_LENGTH:,} characters: is this a text file with line ends?"


class UnboundedError(ValueError):
    """A line or a sentence is too large for memory. `line` is its line number, from 1."""

    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line


@contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Open a text file, a `.gz` file or, for "-", standard input. Bytes that are not UTF-8 become surrogates.

    A byte-order mark at the start is left out. Raises ValueError for a damaged `.gz` file.
    """
    with open_bytes(path) as file:
        # With newline="\n" only \n ends a line, and a \r before it is preserved for the output.
        text = TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="\n")
        try:
            yield text
        finally:
            text.detach()  # standard input stays open


@contextmanager
def open_bytes(path: str) -> Iterator[BufferedReader]:
    """Like `open_text`, but without decoding."""
    with named_errors(path):
        if path == "-":
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            yield cast(BufferedReader, sys.stdin.buffer)
        elif path.endswith(".gz"):
            with complete_gzip(path), gzip.open(path, "rb") as file:
                yield cast(BufferedReader, file)
        else:
            with open(path, "rb") as file:
                yield file


def bounded_lines(file: TextIO, first: int = 1) -> Iterator[str]:
    """Yield the lines of a file. Raises UnboundedError at the first line longer than `MAX_LINE_LENGTH`.

    first: the number of the first line.
    """
    for number in count(first):
        line = file.readline(MAX_LINE_LENGTH + 1)
        if len(line) > MAX_LINE_LENGTH:
            raise UnboundedError(number, TOO_LONG)
        if not line:
            return
        yield line
