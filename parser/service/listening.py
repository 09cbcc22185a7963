"""How connections reach the process that serves them.

A single process accepts them from the listening socket. The supervisor of several processes accepts each
connection and gives it to the worker with the fewest connections, as an open file, over a pair of sockets
(unix(7)). If the workers shared one listening socket, a worker would take all connections that wait when it
looks, and keep the kept-alive ones while other workers have none. If each worker had its own socket
(SO_REUSEPORT), connections would be spread at random, even to busy workers, and those of a worker that dies
would be lost. Here, the supervisor has each connection open, too, and gives those from which the worker has
read nothing to other workers.
"""

from __future__ import annotations

import errno
import os
import socket
from asyncio.constants import ACCEPT_RETRY_DELAY
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from parser.service.stages import Stage, StageByte, Stages

BACKLOG = 1_024
PAUSE = ACCEPT_RETRY_DELAY
"""Seconds in which nothing is accepted after resources have run out."""
LACKS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
DESCRIPTORS = "PARSER_DESCRIPTORS"
"""The environment variable that holds the file descriptors of a worker."""
READY, CLOSED = b"r", b"c"
"""Messages from a worker: it is ready for connections; some of its connections have closed."""
NUMBER_BYTES = 4
RELEASE = b"\xff" * NUMBER_BYTES
"""Messages to a worker: the number of a connection, which comes with it; or that the worker is to close one
of its connections, in favor of another worker."""


class Listening(socket.socket):
    """A listening socket for an asyncio server, which pauses if file descriptors or memory run out."""

    _has_failed = False
    is_over = False
    """Whether no further connections are to be accepted."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and its client's address. Raises OSError.

        asyncio calls this up to a thousand times in turn, and logs each lack of resources. So the call after
        one that failed says that no connection waits.
        """
        if self._has_failed or self.is_over:
            self._has_failed = False
            raise BlockingIOError
        try:
            return self.next_connection()
        except OSError as error:
            self._has_failed = lacks_resources(error)
            raise

    def next_connection(self) -> tuple[socket.socket, Any]:
        """Like `accept`, at each call. Raises OSError."""
        return super().accept()


def lacks_resources(error: OSError) -> bool:
    """Whether a connection could not be accepted because the process or the machine has too many."""
    return error.errno in LACKS


def listen(host: str, port: int) -> Listening:
    """Return a socket for the server. port: 0 selects a free one. Raises ValueError if it cannot be bound."""
    if not host:
        raise ValueError("--host is empty; write 127.0.0.1 for this machine only, 0.0.0.0 for all networks")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]  # it repeats the address
        raise ValueError(f"{host}, port {port}: {reason}") from None
    # Connections inherit this option. The second piece of an answer would wait for 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return Listening(fileno=bound.detach())


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Giver:
    """The supervisor's end of the channel to a worker."""

    def __init__(self, stages: Stages) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._stages = stages
        self.connections: set[socket.socket] = set()
        """The connections that the worker has taken or that wait for it."""

    @property
    def theirs(self) -> int:
        """The file descriptor that the worker inherits."""
        return self._theirs.fileno()

    def fileno(self) -> int:
        """The file descriptor that is readable when the worker has sent messages."""
        return self._ours.fileno()

    def hear(self) -> bytes:
        """Receive the messages that the worker has sent, and close the connections that it has closed."""
        messages = self._ours.recv(1 << 12)
        for connection in self.at(Stage.CLOSED):
            self.connections.remove(connection)
            connection.close()
        return messages

    def at(self, stage: Stage) -> list[socket.socket]:
        """Return the connections that are at this stage."""
        return [one for one in self.connections if self._stages[one.fileno()] == stage]

    def give(self, connection: socket.socket) -> bool:
        """Send the connection to the worker. Returns whether there was room for it.

        There is room for hundreds of connections that the worker has not taken.
        """
        number = connection.fileno()
        self._stages[number] = Stage.GIVEN
        try:
            socket.send_fds(self._ours, [number.to_bytes(NUMBER_BYTES, "big")], [number])
        except OSError:
            return False
        self.connections.add(connection)
        return True

    def release(self, connections: int) -> None:
        """Ask the worker to close this many connections, so that their clients reconnect."""
        with suppress(BlockingIOError):  # a worker that reads nothing has other problems
            self._ours.send(RELEASE * connections)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class GivenConnections(Listening):
    """The worker's end of the channel: to an asyncio server, it is a listening socket."""

    def __init__(self, descriptor: int, release: Callable[[], None], stages: memoryview):
        """release: called when a connection should be closed. stages: of all connections of the service."""
        super().__init__(fileno=descriptor)
        self._release, self._stages = release, stages
        self._numbers: dict[int, int] = {}
        """The numbers of the connections, by their descriptors in this process."""

    def listen(self, backlog: int = 0) -> None:
        self.send(READY)

    def next_connection(self) -> tuple[socket.socket, Any]:
        """Raises BlockingIOError if no connection waits, and OSError if there are too many open files."""
        while True:
            os.close(os.dup(self.fileno()))  # received without a free descriptor, a connection is lost
            message, descriptors, _, _ = socket.recv_fds(self, NUMBER_BYTES, 1)
            if not message:
                raise BlockingIOError  # the supervisor has exited, and this process exits at once
            if message == RELEASE:
                self._release()
                continue
            number = int.from_bytes(message, "big")
            if not descriptors:  # another thread has just opened the last file
                self._tell_closed(number)
                continue
            self._numbers[descriptors[0]] = number
            connection = _GivenConnection(descriptors[0], partial(self._tell_closed, number))
            try:
                return connection, connection.getpeername()
            except OSError:  # the client is gone
                connection.close()

    def stage_of(self, descriptor: int) -> StageByte:
        """Return the byte for the stage of an open connection. descriptor: of the connection."""
        number = self._numbers[descriptor]
        return self._stages[number : number + 1]

    def _tell_closed(self, number: int) -> None:
        self._stages[number] = Stage.CLOSED
        with suppress(OSError):  # it is shut down, or so many messages wait that the stage will be seen
            self.send(CLOSED)


class _GivenConnection(socket.socket):
    def __init__(self, descriptor: int, tell_closed: Callable[[], None]):
        super().__init__(fileno=descriptor)
        self._tell_closed = tell_closed

    def close(self) -> None:
        if self.fileno() == -1:
            return
        with suppress(OSError):  # the client is gone
            self.shutdown(socket.SHUT_RDWR)  # the supervisor has the connection open, too
        super().close()
        self._tell_closed()


class WorkerDescriptors(NamedTuple):
    channel: int
    """The descriptor of the channel to the supervisor."""
    stages: int
    """The descriptor of the stages of all connections."""
    answering: int
    """The descriptor at which this worker receives questions, see `QuestionPairs`."""
    asking: tuple[int, ...]
    """The descriptors for sending questions to all workers."""

    @classmethod
    def of_this_process(cls) -> WorkerDescriptors | None:
        """Return the descriptors of this process, or None if it is not a worker."""
        if DESCRIPTORS not in os.environ:
            return None
        channel, stages, answering, *asking = map(int, os.environ[DESCRIPTORS].split())
        return cls(channel, stages, answering, tuple(asking))

    @property
    def all(self) -> tuple[int, ...]:
        return (self.channel, self.stages, self.answering, *self.asking)

    def variable(self) -> dict[str, str]:
        """Return the environment variable for the worker that has these descriptors."""
        return {DESCRIPTORS: " ".join(map(str, self.all))}
