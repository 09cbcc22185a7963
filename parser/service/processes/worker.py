"""A process that serves, as the supervisor sees it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator, Sequence

from parser.service.processes.channel import CLOSED, READY, Giver
from parser.service.processes.place import WorkerPlace
from parser.service.processes.questions import QuestionPairs
from parser.system.lifeline import end, start_process
from parser.system.python_processes import environment, python

SECONDS_BETWEEN_CHECKS = 0.1


class WorkerProcess:
    def __init__(self, arguments: Sequence[str], number: int, questions: QuestionPairs, line: int):
        """arguments: of the program. number: from 1; one that is started for one that has ended has the same.
        line: it ends with this lifeline."""
        self.number, self.channel = number, Giver()
        self.connections = 0
        """That it has, and that wait for it."""
        self.is_ready = False
        place = WorkerPlace(self.channel.theirs, questions.answering(number), questions.asking)
        command = python("-m", "parser", *arguments)
        own = environment(**place.variable())
        self._process = start_process(command, line, place.descriptors, env=own)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """With which it has ended: that of a signal is negative."""
        return self._process.poll()

    def hear(self) -> bool:
        """Take in what it tells. Returns whether it has become ready."""
        was_ready = self.is_ready
        for word in self.channel.hear():
            self.is_ready |= word == READY
            self.connections -= word == CLOSED
        return self.is_ready and not was_ready

    def give(self, connection: socket.socket) -> bool:
        """Whether there was room for it."""
        was_given = self.channel.give(connection)
        self.connections += was_given
        return was_given

    def release(self, connections: int) -> None:
        """Ask for so many to be closed after their next answers, if that is more than 0."""
        self.channel.release(max(0, connections))

    async def ended(self) -> int:
        """Its code, when there is one."""
        while (code := self.code) is None:
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
        return code

    def stop(self) -> None:
        """Ask it to drain. One that is not ready has nothing to lose, and would say that it was stopped."""
        self._process.send_signal(signal.SIGTERM if self.is_ready else signal.SIGKILL)

    def bury(self) -> Iterator[socket.socket]:
        """Kill what is left of it. Yields the connections that it has not taken."""
        self.is_ready = False
        end(self._process)
        yield from self.not_taken()
        self.channel.close()

    def not_taken(self) -> Iterator[socket.socket]:
        """The connections that it was given and has not taken, and will not get."""
        return self.channel.not_taken()
