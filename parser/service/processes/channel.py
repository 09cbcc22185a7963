"""How connections reach the process that serves them: as open files, over a pair of sockets (unix(7)).

The supervisor accepts each connection and gives it to the worker that has the fewest. With one listening
socket that workers share, a worker takes all connections that wait when it looks, and keeps those that are
kept alive, while others have none. With a socket for each worker (SO_REUSEPORT), connections are spread
by chance, also to workers that are busy, and what waits at a worker that dies is lost. Here, the supervisor
keeps the worker's end, too, and gives to others what nobody has taken from there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

READY, CLOSED = b"r", b"c"
"""What a worker tells: it takes connections; one of them has ended."""
CONNECTION, RELEASE = b"c", b"r"
"""What it is told: here is one; another worker should have one of yours."""


class Giver:
    """The supervisor's end."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def theirs(self) -> int:
        """The descriptor that the worker gets."""
        return self._theirs.fileno()

    def fileno(self) -> int:
        """Is readable when there is something to hear."""
        return self._ours.fileno()

    def hear(self) -> list[bytes]:
        """What the worker has told."""
        return [bytes([one]) for one in self._ours.recv(1 << 12)]

    def give(self, connection: socket.socket) -> bool:
        """Whether there was room for it: there is for hundreds that the worker has not taken."""
        try:
            socket.send_fds(self._ours, [CONNECTION], [connection.fileno()])
        except OSError:
            return False
        return True

    def release(self, connections: int) -> None:
        """Ask for so many to be closed, so that their clients connect anew."""
        with suppress(BlockingIOError):  # one that takes nothing has other troubles
            self._ours.send(RELEASE * connections)

    def not_taken(self) -> Iterator[socket.socket]:
        """The connections that the worker has not accepted, which it gets no more."""
        self._theirs.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                _, found, _, _ = socket.recv_fds(self._theirs, 1, 1)
                yield from (socket.socket(fileno=one) for one in found)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class GivenConnections(socket.socket):
    """The worker's end. For a server of asyncio it is a listening socket, which accepts what is given."""

    def __init__(self, descriptor: int, release: Callable[[], None]):
        """release: is called when one should be closed."""
        super().__init__(fileno=descriptor)
        self._release = release

    def listen(self, backlog: int = 0) -> None:
        self.send(READY)

    def accept(self) -> tuple[socket.socket, Any]:
        """A connection and the client's address. Raises BlockingIOError if none waits."""
        while True:
            message, found, _, _ = socket.recv_fds(self, 1, 1)
            if not message:
                raise BlockingIOError  # the supervisor has ended, and this process does at once
            if message == RELEASE:
                self._release()
                continue
            if not found:  # there were too many open files
                self._tell_closed()
                continue
            connection = _GivenConnection(found[0], self._tell_closed)
            try:
                return connection, connection.getpeername()
            except OSError:  # the client is gone
                connection.close()

    def _tell_closed(self) -> None:
        with suppress(OSError):  # at the end, nobody counts
            self.send(CLOSED)


class _GivenConnection(socket.socket):
    def __init__(self, descriptor: int, tell_closed: Callable[[], None]):
        super().__init__(fileno=descriptor)
        self._tell_closed = tell_closed

    def close(self) -> None:
        is_first = self.fileno() != -1
        super().close()
        if is_first:
            self._tell_closed()
