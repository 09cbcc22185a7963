"""Starts several processes that serve at one socket, distributes connections, and replaces dead processes.

uvicorn's own supervisor is not enough: its workers share a socket (see `listening`), outlive a supervisor
that is killed, and are restarted at once however often they fail.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from logging import Logger

from parser.service.listening import PAUSE, READY, Giver, WorkerDescriptors, lacks_resources, url_of
from parser.service.log import tell
from parser.service.lost_connections import close_after_client, say_lost
from parser.service.questions import QuestionPairs
from parser.service.stages import Stage, Stages, raise_limit
from parser.system.interruption import Interrupted, handled_by_loop
from parser.system.processes import end, environment, lifeline, python, start_process
from parser.training.launcher import lost_process

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a process that has ended is replaced. The pause doubles each time, up to the longest one. It
is reset after a process has lived for at least the longest pause."""
TIME_TO_END = 5.0
"""Seconds that a process has to exit after the grace period. Then it is killed."""
SECONDS_BETWEEN_CHECKS = 0.1


class Supervisor:
    def __init__(
        self,
        arguments: Sequence[str],
        names: Sequence[str],
        count: int,
        listener: socket.socket,
        grace: float,
        logger: Logger,
    ):
        """arguments: of the program, which define what each process serves. names: of the models. grace: the
        grace period in seconds, see `Server`.
        """
        self._arguments, self._names = arguments, names
        self._count, self._listener = count, listener
        listener.setblocking(False)  # a client may be gone before it is accepted
        self._grace, self._logger = grace, logger
        self._workers: list[WorkerProcess] = []
        self._waiting: list[socket.socket] = []
        """Accepted connections that no process has yet."""
        self._closing: set[asyncio.Task[None]] = set()
        """For each connection of a process that has died, what waits for its client."""
        self._pauses = False
        """Whether nothing is accepted, as resources have run out."""
        self._serves, self._stops = asyncio.Event(), asyncio.Event()
        """Set when the first process is ready, and when a signal arrives."""
        self._signal = 0

    def run(self) -> int:
        """Serve until a signal arrives and all processes have drained.

        Returns 0, or the exit code of the first process if it could not serve and has reported why. Raises
        ValueError if it has not reported why, and Interrupted if a signal arrives before it serves.
        """
        with ExitStack() as stack:
            questions = stack.enter_context(QuestionPairs(self._count))
            line = stack.enter_context(lifeline())
            self._stages = stack.enter_context(closing(Stages(raise_limit())))
            code = asyncio.run(self._run(questions, line))
        if self._signal and not self._serves.is_set():
            raise Interrupted(self._signal)
        if code < 0 or not (code or self._signal):
            raise ValueError(lost_process(self._count))
        return code

    async def _run(self, questions: QuestionPairs, line: int) -> int:
        tasks = [
            asyncio.create_task(self._keep(number, questions, line)) for number in range(1, self._count + 1)
        ]
        tasks.append(asyncio.create_task(self._stops.wait()))
        try:
            with handled_by_loop(self._stop):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                code = 0 if self._stops.is_set() else int(done.pop().result())
                for task in tasks:
                    task.cancel()
                self._listen()
                self._listener.close()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._grace + TIME_TO_END):
                        await asyncio.gather(*map(self._drained, self._workers))
                return code
        finally:
            for worker in list(self._workers):
                self._bury(worker)
            await asyncio.gather(*self._closing)

    def _stop(self, number: int) -> None:
        """Drain at the first signal, and abort running requests at the second.

        Connections from which nothing has been read have no running requests, and are closed at once.
        """
        self._signal = number
        self._stops.set()
        self._listen()
        for worker in self._workers:
            for connection in worker.channel.at(Stage.GIVEN):
                with suppress(OSError):  # the client is gone
                    connection.shutdown(socket.SHUT_RDWR)
            worker.stop()
        self._hand_out()

    async def _keep(self, number: int, questions: QuestionPairs, line: int) -> int:
        """Keep a process running. Returns the exit code of the first one if it exits before it is ready."""
        pause = FIRST_PAUSE
        while True:
            if number > 1:
                # The first one starts alone: if it cannot load its models, none can, and it says so once.
                await self._serves.wait()
            if self._stops.is_set():  # after the signal, nobody would stop a new process
                return 0
            began = time.monotonic()
            try:
                worker = WorkerProcess(self._arguments, number, questions, self._stages, line)
            except OSError as error:  # such as a lack of memory or descriptors, which can be temporary
                if not self._serves.is_set():
                    raise
                tell(self._logger, "process not started", process=number, error=error.strerror, pause=pause)
            else:
                self._workers.append(worker)
                asyncio.get_running_loop().add_reader(worker.channel, self._hear, worker)
                code = await worker.ended()
                requests = self._bury(worker)
                if not self._serves.is_set():
                    return code
                if time.monotonic() - began >= LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                told = {"pid": worker.pid, "code": code, "requests": requests, "pause": pause}
                tell(self._logger, "process ended", process=number, **told)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _drained(self, worker: WorkerProcess) -> None:
        """Wait until a process has ended after the signal. It may have been killed while it served."""
        code, served = await worker.ended(), worker.is_ready
        requests = self._bury(worker)
        if code and served:
            told = {"pid": worker.pid, "code": code, "requests": requests}
            tell(self._logger, "process ended", process=worker.number, **told)

    def _bury(self, worker: WorkerProcess) -> int:
        """Kill what is left of a process, and end its connections. Returns the number of lost requests."""
        self._workers.remove(worker)
        asyncio.get_running_loop().remove_reader(worker.channel)
        worker.bury()
        unread = worker.channel.at(Stage.GIVEN)
        self._waiting += unread
        requests = 0
        for connection in worker.channel.connections.difference(unread):
            requests += say_lost(connection, self._stages[connection.fileno()])
            task = asyncio.create_task(close_after_client(connection))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._listen()
        self._hand_out()
        return requests

    @property
    def _ready(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.is_ready]

    def _hear(self, worker: WorkerProcess) -> None:
        if not worker.hear():
            return
        tell(self._logger, "process ready", process=worker.number, pid=worker.pid)
        if not self._serves.is_set():
            self._serves.set()
            told = {"url": url_of(self._listener), "models": self._names, "processes": self._count}
            tell(self._logger, "serving", **told)
        self._listen()
        self._hand_out()
        fair = sum(map(_load, self._ready)) // len(self._ready)
        for each in self._ready:
            each.channel.release(max(0, _load(each) - fair))

    def _listen(self) -> None:
        """Start or stop accepting. Connections wait in the listening socket while no process is ready."""
        loop = asyncio.get_running_loop()
        if self._ready and not self._pauses and not self._stops.is_set():
            loop.add_reader(self._listener, self._accept)
        elif self._listener.fileno() != -1:
            loop.remove_reader(self._listener)

    def _accept(self) -> None:
        try:
            self._stages.check_room()
            self._waiting.append(self._listener.accept()[0])
        except OSError as error:
            if not lacks_resources(error):
                return  # none waits, or its client is gone
            tell(self._logger, "no connections accepted", error=error.strerror, pause=PAUSE)
            self._pauses = True
            self._listen()
            asyncio.get_running_loop().call_later(PAUSE, self._end_pause)
        self._hand_out()

    def _end_pause(self) -> None:
        self._pauses = False
        self._listen()

    def _hand_out(self) -> None:
        """Give each waiting connection to the process with the fewest, or close it: if none has room, or if
        the service is being stopped.
        """
        stops = self._stops.is_set()
        while self._waiting and (self._ready or stops):
            connection, able = self._waiting.pop(), [] if stops else sorted(self._ready, key=_load)
            if not any(worker.channel.give(connection) for worker in able):
                connection.close()


class WorkerProcess:
    """The supervisor's view of a process that serves."""

    def __init__(
        self, arguments: Sequence[str], number: int, questions: QuestionPairs, stages: Stages, line: int
    ):
        """arguments: of the program. number: from 1; a replacement gets the same number. line: the lifeline
        with which the process ends.
        """
        self.number, self.channel = number, Giver(stages)
        self.is_ready = False
        answering, asking = questions.answering(number), questions.asking
        descriptors = WorkerDescriptors(self.channel.theirs, stages.descriptor, answering, asking)
        command, variables = python("-m", "parser", *arguments), environment(**descriptors.variable())
        self._process = start_process(command, line, descriptors.all, env=variables)

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> bool:
        """Process the messages of the worker. Returns whether it has become ready."""
        was_ready = self.is_ready
        self.is_ready |= READY in self.channel.hear()
        return self.is_ready and not was_ready

    async def ended(self) -> int:
        """Wait until the process exits. Returns its exit code, negative if a signal ended it."""
        while (code := self._process.poll()) is None:
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
        return code

    def stop(self) -> None:
        """Ask the process to drain, or kill it if it is not ready.

        Before it is ready, it has nothing to lose, and would report that it was stopped.
        """
        self._process.send_signal(signal.SIGTERM if self.is_ready else signal.SIGKILL)

    def bury(self) -> None:
        """Kill what is left of the process. Its connections stay open."""
        self.is_ready = False
        end(self._process)
        self.channel.close()


def _load(worker: WorkerProcess) -> int:
    return len(worker.channel.connections)
