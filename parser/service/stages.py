"""How far each connection of the workers is: a byte in memory that the supervisor and its workers share.

A worker notes it without a system call. If the worker dies, the supervisor sees how each of its connections
has to end.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
import tempfile
from enum import IntEnum
from mmap import mmap

MOST = 1 << 16
"""Open files that a process asks for."""
RESERVED = 32
"""Open files of the supervisor that are no connections; its new processes need some for a moment."""
StageByte = bytearray | memoryview
"""A single byte."""


class Stage(IntEnum):
    GIVEN = 0
    """Nothing has been read from the connection. It may still be on its way to the worker."""
    IDLE = 1
    """No request has arrived, or all have been answered and the answers sent."""
    ASKED = 2
    """A request has arrived, in part at least, and nothing of its answer has been sent."""
    ANSWERING = 3
    """Part of an answer may have been sent."""
    BETWEEN_LINES = 4
    """The answer is a stream of NDJSON in chunks. Whole chunks have been sent, and more are to follow."""
    BETWEEN_SENTENCES = 5
    """The same for a stream of CoNLL-U."""
    CLOSED = 6


def raise_limit() -> int:
    """Let this process open at least `MOST` files, or as many as it may. Returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(hard, MOST))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


class Stages:
    """The supervisor's view of the stages. The number of a connection is its descriptor in the supervisor."""

    def __init__(self, limit: int):
        """limit: the maximum number of open files."""
        self.descriptor = _unnamed_file()
        os.truncate(self.descriptor, limit)
        self._bytes = mmap(self.descriptor, limit)

    def __getitem__(self, number: int) -> int:
        return self._bytes[number]

    def __setitem__(self, number: int, stage: Stage) -> None:
        self._bytes[number] = stage

    def close(self) -> None:
        self._bytes.close()
        os.close(self.descriptor)

    def check_room(self) -> None:
        """Raises OSError if there is no room for another connection."""
        number = os.dup(self.descriptor)  # as the lowest unused number, it would be the connection's
        os.close(number)
        if number >= len(self._bytes) - RESERVED:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def stages_of_worker(descriptor: int) -> memoryview:
    """Return the stages that a worker shares. descriptor: of `Stages`."""
    return memoryview(mmap(descriptor, 0))


def _unnamed_file() -> int:
    """Return the descriptor of a file that takes no name and, where the system can do this, no disk."""
    if sys.platform == "linux":
        return os.memfd_create("stages")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
