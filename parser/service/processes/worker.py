"""The supervisor's view of a process that serves."""

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
        """arguments: of the program. number: from 1; a replacement gets the same number. line: the lifeline
        with which the process ends.
        """
        self.number, self.channel = number, Giver()
        self.connections = 0
        """The number of connections that the process has taken or that wait for it."""
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
        """The exit code, negative if a signal ended the process, or None while it runs."""
        return self._process.poll()

    def hear(self) -> bool:
        """Process the messages of the worker. Returns whether it has become ready."""
        was_ready = self.is_ready
        for word in self.channel.hear():
            self.is_ready |= word == READY
            self.connections -= word == CLOSED
        return self.is_ready and not was_ready

    def give(self, connection: socket.socket) -> bool:
        """Send the connection to the process. Returns whether there was room for it."""
        was_given = self.channel.give(connection)
        self.connections += was_given
        return was_given

    def release(self, connections: int) -> None:
        """Ask the process to close this many connections after their next responses, if above 0."""
        self.channel.release(max(0, connections))

    async def ended(self) -> int:
        """Wait until the process exits. Returns its exit code."""
        while (code := self.code) is None:
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
        return code

    def stop(self) -> None:
        """Ask the process to drain, or kill it if it is not ready.

        Before it is ready, it has nothing to lose, and would report that it was stopped.
        """
        self._process.send_signal(signal.SIGTERM if self.is_ready else signal.SIGKILL)

    def bury(self) -> Iterator[socket.socket]:
        """Kill what is left of the process. Yields the connections that it has not taken."""
        self.is_ready = False
        end(self._process)
        yield from self.not_taken()
        self.channel.close()

    def not_taken(self) -> Iterator[socket.socket]:
        """Take back the connections that were given to the process but that it has not taken."""
        return self.channel.not_taken()
