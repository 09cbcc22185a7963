"""How the processes ask each other: over pairs of sockets that all of them inherit (unix(7)).

A question is an open file, into which the answer is written. Named sockets would be files, whose paths can be
too long, and which nobody removes after the supervisor is killed.
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
"""The buffer size for questions that a process has not received yet; some still fit. It is small, because
the number of open files in transit is limited for each user, and connections are such files, too."""
SECONDS = 1.0
"""The time within which a process has to answer."""


class QuestionPairs:
    """The supervisor's socket pairs: a pair for each process, which its replacement inherits."""

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
        """The descriptors for sending questions to the processes, in the order of their numbers."""
        return tuple(asking.fileno() for asking, _ in self._pairs)

    def answering(self, number: int) -> int:
        """Return the descriptor at which a process receives questions. number: of the process, from 1."""
        return self._pairs[number - 1][1].fileno()


class Questions:
    """The ends of the socket pairs that one process uses, to ask all processes and to answer them."""

    def __init__(self, asking: Sequence[int], answering: int):
        """asking, answering: see `QuestionPairs`. This object owns the descriptors."""
        self._asking = [socket.socket(fileno=one) for one in asking]
        for one in self._asking:
            one.setblocking(False)
        self._answering = _Asked(fileno=answering)

    def close(self) -> None:
        for one in (*self._asking, self._answering):
            one.close()

    @asynccontextmanager
    async def answered(self, text: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
        """Answer questions with the result of `text` inside the `async with` block."""

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await text())
            writer.close()

        # start_unix_server looks at the socket's name, which must not be empty since Python 3.13.
        async with await asyncio.start_server(answer, sock=self._answering):
            yield

    async def ask_all(self) -> dict[str, str]:
        """Return the answers of all processes that give one, by process number."""
        answers = await asyncio.gather(*map(_ask, self._asking))
        return {str(number): text for number, text in enumerate(answers, 1) if text}


class _Asked(socket.socket):
    """For an asyncio server, a listening socket that accepts the sockets that other processes send."""

    def listen(self, backlog: int = 0) -> None:
        pass

    def accept(self) -> tuple[socket.socket, Any]:
        _, descriptors, _, _ = socket.recv_fds(self, 1, 1)
        if not descriptors:  # there were too many open files
            raise BlockingIOError
        return socket.socket(fileno=descriptors[0]), ""


async def _ask(asked: socket.socket) -> str:
    """Return the answer, or an empty string if the process does not answer."""
    loop, answer = asyncio.get_running_loop(), bytearray()
    ours, theirs = socket.socketpair()
    try:
        with ours:
            with theirs:
                socket.send_fds(asked, [QUESTION], [theirs.fileno()])
            ours.setblocking(False)
            async with asyncio.timeout(SECONDS):
                while piece := await loop.sock_recv(ours, 1 << 16):
                    answer += piece
    except OSError:  # includes TimeoutError, and the error if too many questions wait for a process
        return ""
    return answer.decode()
