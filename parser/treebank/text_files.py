"""Reading text files line by line, compressed or not, in bounded memory.

Standard input that may block is read by a thread, so that available input can be used meanwhile.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from itertools import count
from queue import Empty, Queue
from threading import Thread
from typing import TextIO, cast

from parser.system.files import STANDARD, complete_gzip, named_errors

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


CHUNK = 1 << 16
"""Number of bytes read at a time."""
CHUNKS_AHEAD = 16
"""Maximum number of chunks that are read ahead."""


def waits(path: str) -> bool:
    """Whether reading may have to wait for another program or for a person."""
    if path != "-" or sys.stdin is None:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # not a file of the operating system
        return False
    return not stat.S_ISREG(mode)


def lines_as_they_come() -> Iterator[str | None]:
    """The lines of standard input, as from `open_text`, and None whenever the next line is not there yet.

    Raises UnboundedError like `bounded_lines`.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    pending, number = "", 1
    for chunk in chunks_as_they_come():
        if chunk is None:
            yield None
            continue
        *lines, pending = (pending + decoder.decode(chunk, final=not chunk)).split("\n")
        for line in lines:
            if len(line) >= MAX_LINE_LENGTH:
                raise UnboundedError(number, TOO_LONG)
            number += 1
            yield f"{line}\n"
        if len(pending) > MAX_LINE_LENGTH:
            raise UnboundedError(number, TOO_LONG)
    if pending:
        yield pending


def chunks_as_they_come() -> Iterator[bytes | None]:
    """The bytes of standard input; the last chunk is empty. None whenever the next one is not there yet."""
    read: Queue[bytes | OSError] = Queue(CHUNKS_AHEAD)
    # Not `sys.stdin`: a thread that waits in it when the program exits would keep its lock.
    descriptor = sys.stdin.fileno()

    def run() -> None:
        chunk = b" "
        while chunk:
            try:
                chunk = os.read(descriptor, CHUNK)
            except OSError as error:
                read.put(error)
                return
            read.put(chunk)

    Thread(target=run, name="reading standard input", daemon=True).start()
    chunk: bytes | OSError = b" "
    while chunk:
        try:
            chunk = read.get_nowait()
        except Empty:
            yield None
            chunk = read.get()
        if isinstance(chunk, OSError):
            with named_errors(STANDARD):
                raise chunk
        yield chunk
