"""Standard input that may block, read by a thread, so that available input can be used meanwhile."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Iterator
from queue import Empty, Queue
from threading import Thread

from parser.system.files import STANDARD, named_errors
from parser.treebank.text_files import MAX_LINE_LENGTH, TOO_LONG, UnboundedError

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
