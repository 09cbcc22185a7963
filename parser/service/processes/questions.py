"""How the processes ask each other: over pairs of sockets that all of them inherit (unix(7)).

A question is an open file, into which the answer is written. Sockets with names would be files, whose paths
may be too long, and which nobody removes after a supervisor that is killed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Self

QUESTION = b"q"
FEW_BYTES = 1
"""Of questions that a process has not heard, of which there is then room for some: a user may have only so
many open files on their way, and connections are such files, too."""
SECONDS = 1.0
"""In which a process answers."""


class QuestionPairs:
    """The supervisor's: a pair for each process, which one that replaces it gets, too."""

    def __init__(self, count: int):
        self._pairs = [socket.socketpair() for _ in range(count)]
        for asking, _ in self._pairs:
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, FEW_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for pair in self._pairs:
                for end in pair:
                    stack.enter_context(end)

    @property
    def asking(self) -> tuple[int, ...]:
        """The descriptors at which the processes are asked, that of the first one first."""
        return tuple(asking.fileno() for asking, _ in self._pairs)

    def answering(self, number: int) -> int:
        """The descriptor at which a process hears what it is asked. number: from 1."""
        return self._pairs[number - 1][1].fileno()


class Questions:
    """A process's."""

    def __init__(self, asking: Sequence[int], answering: int):
        """See `QuestionPairs`. The descriptors belong to this object."""
        self._asking = [socket.socket(fileno=one) for one in asking]
        for one in self._asking:
            one.setblocking(False)
        self._answering = _Asked(fileno=answering)

    def close(self) -> None:
        for one in (*self._asking, self._answering):
            one.close()

    @asynccontextmanager
    async def answered(self, own: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
        """Inside the block this process answers."""

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await own())
            writer.close()

        # start_unix_server looks at the socket's name, which from Python 3.13 on may not be empty.
        async with await asyncio.start_server(answer, sock=self._answering):
            yield

    async def ask_all(self) -> dict[str, str]:
        """The answers of all processes that give one, by their numbers."""
        answers = await asyncio.gather(*map(_ask, self._asking))
        return {str(number): text for number, text in enumerate(answers, 1) if text}


class _Asked(socket.socket):
    """For a server of asyncio it is a listening socket, which accepts what others give."""

    def listen(self, backlog: int = 0) -> None:
        pass

    def accept(self) -> tuple[socket.socket, Any]:
        _, found, _, _ = socket.recv_fds(self, 1, 1)
        if not found:  # there were too many open files
            raise BlockingIOError
        return socket.socket(fileno=found[0]), ""


async def _ask(asked: socket.socket) -> str:
    """Empty if nobody answers."""
    loop, found = asyncio.get_running_loop(), bytearray()
    ours, theirs = socket.socketpair()
    try:
        with ours:
            with theirs:
                socket.send_fds(asked, [QUESTION], [theirs.fileno()])
            ours.setblocking(False)
            async with asyncio.timeout(SECONDS):
                while piece := await loop.sock_recv(ours, 1 << 16):
                    found += piece
    except OSError:  # which TimeoutError is, and that too many questions wait for a process
        return ""
    return found.decode()
