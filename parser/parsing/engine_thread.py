"""A thread that computes for an engine, while threads and asyncio tasks that want trees only wait."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from queue import Full
from threading import Condition, Event, Lock, Thread, current_thread
from types import TracebackType
from typing import Any, Self, TypeVar

from parser.parsing.engine import Engine, EngineLoad
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.scheduler import Request, RequestSource
from parser.treebank.sentence import Sentence

Result = TypeVar("Result")
JOBS = 32
"""Jobs that are read before the next step of the engine: about as many sentences as a CPU parses together."""
Ended = tuple["asyncio.Future[Any]", Any, Exception | None]
"""What somebody waits for, with the result or the error."""


class AwaitedRequest(Request):
    """A request that notes its end, with the object that wakes up whoever waits for it."""

    __slots__ = ("_ended", "waiter")

    def __init__(
        self,
        sentence: Sentence,
        options: ParseOptions,
        source: RequestSource,
        lock: Lock,
        ended: deque[AwaitedRequest],
    ):
        """ended: the queue to which the request is appended when it ends."""
        super().__init__(sentence, options, source, lock)
        self._ended = ended
        self.waiter: Event | asyncio.Future[None] | None = None

    def _note_end(self) -> None:
        self._ended.append(self)


class _Job:
    """A short input that is read, parsed and written in the thread."""

    def __init__(
        self,
        read: Callable[[], Iterable[Sentence]],
        write: Callable[[list[ParsedTree]], Any],
        options: ParseOptions,
    ):
        self.read, self.write, self.options = read, write, options
        self.requests: list[AwaitedRequest] = []
        self.error: Exception | None = None
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class EngineThread:
    """Parses sentences in a thread, for any number of threads and asyncio tasks.

    The thread starts with the first request, and sleeps when there is nothing to do. If the engine fails, all
    who are waiting get a RuntimeError with the error as its cause; later requests are tried. When used as a
    context manager, it is closed at the end. Requests that still wait when the program exits are cancelled.
    """

    def __init__(self, engine: Engine):
        """engine: one for which nothing else computes."""
        self._engine, self._source, self._process = engine, RequestSource(), os.getpid()
        self._changed, self._ending = Condition(), Lock()
        self._thread: Thread | None = None
        self._is_closed = False
        self._has_failed = False
        """Whether the engine failed while nobody waited. It is not tried again before the next request."""
        self._unfinished: set[AwaitedRequest] = set()
        """Requests whose waiters have not been woken up."""
        self._ended: deque[AwaitedRequest] = deque()
        """The unfinished requests that have ended."""
        self._unadmitted: deque[tuple[AwaitedRequest, Event]] = deque()
        """The unfinished requests for which the engine had no room, with events that are set on admission."""
        self._jobs: deque[_Job] = deque()
        """Jobs that have not begun."""
        self._begun: list[_Job] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=error is not None)

    async def parse(
        self,
        sentence: Sentence,
        options: ParseOptions = TREE_ALONE,
        source: RequestSource | None = None,
        wait: bool = True,
    ) -> ParsedTree:
        """Parse a sentence in an asyncio task. If the task is cancelled, so is the request.

        For the arguments and errors, see `add` and `result`.
        """
        request = self._request(sentence, options, source)
        request.waiter = ended = asyncio.get_running_loop().create_future()
        self._hand_in(request, wait)
        try:
            await ended
        finally:
            request.cancel()  # without effect if it has ended
        return request.tree()

    def add(
        self,
        sentence: Sentence,
        options: ParseOptions = TREE_ALONE,
        source: RequestSource | None = None,
        wait: bool = True,
    ) -> AwaitedRequest:
        """Hand in a sentence, from any thread.

        source: the source that shares the time with others. wait: whether to wait while too many words
        wait already; otherwise queue.Full is raised. Raises RuntimeError if this is closed, and in a forked
        process.
        """
        request = self._request(sentence, options, source)
        if admitted := self._hand_in(request, wait):
            admitted.wait()
        return request

    def result(self, request: AwaitedRequest) -> ParsedTree:
        """Wait for the tree of a request, in any thread except that of an event loop.

        Raises the error of the sentence if it failed, RuntimeError if the engine failed, and CancelledError
        of concurrent.futures.
        """
        self._refuse_fork()
        with self._changed:
            if request.has_ended:
                return request.tree()
            if not isinstance(request.waiter, Event):
                request.waiter = Event()
            waiter = request.waiter
        waiter.wait()
        return request.tree()

    async def ended(self, request: AwaitedRequest) -> None:
        """Wait, in a task, until the request has ended. Nobody else may wait for the same request.

        With `add`, this parses many sentences without a task for each.
        """
        with self._changed:
            if request.has_ended:
                return
            request.waiter = waiter = asyncio.get_running_loop().create_future()
        await waiter

    @property
    def load(self) -> EngineLoad:
        """The load of the engine. A job that has not begun counts as a sentence that waits."""
        load = self._engine.load
        return load._replace(waiting=load.waiting + len(self._jobs))

    async def run(
        self,
        read: Callable[[], Iterable[Sentence]],
        write: Callable[[list[ParsedTree]], Result],
        options: ParseOptions = TREE_ALONE,
    ) -> Result:
        """Return what `write` returns for the trees of the sentences that `read` returns. Both run in the
        thread, so that an event loop is woken up only once; they should take a few milliseconds at most.

        Raises their errors, and what `result` raises.
        """
        self._refuse_fork()
        job = _Job(read, write, options)
        with self._changed:
            self._refuse_closed()
            self._jobs.append(job)
            self._prepare()
        try:
            written: Result = await job.ended
            return written
        finally:
            for request in job.requests:
                request.cancel()  # without effect if it has ended

    def close(self, cancel: bool = False, join: bool = True) -> None:
        """Accept no more requests.

        cancel: whether to cancel the waiting ones instead of parsing them. join: whether to wait until the
        thread has ended.
        """
        atexit.unregister(self._close_at_exit)
        if os.getpid() != self._process:
            return
        with self._changed:
            self._is_closed = True
            if cancel:
                for job in self._jobs:
                    job.error = CancelledError()
                for request in self._unfinished:
                    request.cancel()
            self._changed.notify()
        if join and self._thread and self._thread is not current_thread():
            self._thread.join()

    def _close_at_exit(self) -> None:
        """The interpreter does not wait for daemon threads, but should not exit while one computes."""
        self.close(cancel=True)

    def _request(
        self, sentence: Sentence, options: ParseOptions, source: RequestSource | None
    ) -> AwaitedRequest:
        source = self._source if source is None else source
        return AwaitedRequest(sentence, options, source, self._ending, self._ended)

    def _hand_in(self, request: AwaitedRequest, wait: bool) -> Event | None:
        """Hand in a request, see `add`. If there is no room yet, returns an event set on admission."""
        self._refuse_fork()
        admitted = None
        with self._changed:
            self._refuse_closed()
            try:
                if self._unadmitted:
                    raise Full(f"{len(self._unadmitted):,} sentences wait for others to be parsed already")
                self._engine.hand_in(request)
            except Full:
                if not wait:
                    raise
                admitted = Event()
                self._unadmitted.append((request, admitted))
            self._unfinished.add(request)
            self._prepare()
        return admitted

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise RuntimeError("this EngineThread was closed: make a new one")

    def _refuse_fork(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("a forked process has no threads of the other: make a new EngineThread here")

    def _prepare(self) -> None:
        """Let the thread compute, as there is something new."""
        self._has_failed = False
        if not self._thread:
            self._start()
        self._changed.notify()

    def _start(self) -> None:
        thread = Thread(target=self._run, name="engine", daemon=True)
        thread.start()  # if this fails, the next request tries again
        self._thread = thread
        atexit.register(self._close_at_exit)

    def _run(self) -> None:
        try:
            while self._has_work():
                try:
                    self._begin_jobs()
                    if not self._engine.is_idle:
                        self._engine.step()
                    self._admit()
                except BaseException as error:
                    self._fail(error)
                self._wake()
        finally:
            self.close(join=False)
            self._fail(RuntimeError("its thread has ended"))  # nobody waits unless waking them up failed
            self._wake()

    def _has_work(self) -> bool:
        """Sleep until there is work. Returns False if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._can_compute)
            return self._can_compute

    @property
    def _can_compute(self) -> bool:
        return bool(self._jobs) or not (self._has_failed or self._engine.is_idle)

    def _begin_jobs(self) -> None:
        """Read the sentences of the next jobs, and hand them in."""
        with self._changed:
            jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), JOBS))]
        self._begun += jobs
        for job in jobs:
            source = RequestSource()
            try:
                if not (job.error or job.ended.cancelled()):
                    for sentence in job.read():
                        request = self._request(sentence, job.options, source)
                        job.requests.append(request)
                        self._hand_in(request, wait=True)
            except Exception as error:
                job.error = error

    def _end_jobs(self) -> Iterator[Ended]:
        """Write the trees of the jobs that have ended, and yield their results and errors."""
        begun, self._begun = self._begun, []
        for job in begun:
            written = None
            if not job.error and not all(request.has_ended for request in job.requests):
                self._begun.append(job)
                continue
            try:
                if not (job.error or job.ended.cancelled()):
                    written = job.write([request.tree() for request in job.requests])
            except Exception as error:
                job.error = error
            yield job.ended, written, job.error

    def _admit(self) -> None:
        """Hand in the requests that wait outside the engine, as long as there is room."""
        with self._changed, suppress(Full):
            while self._unadmitted:
                request, admitted = self._unadmitted[0]
                if not request.has_ended:
                    self._engine.hand_in(request)
                self._unadmitted.popleft()
                admitted.set()

    def _wake(self) -> None:
        """Wake up those whose requests have ended: tasks all at once, since an event loop is woken slowly."""
        by_loop = defaultdict[asyncio.AbstractEventLoop, list[Ended]](list)
        for ended in self._end_jobs():
            by_loop[ended[0].get_loop()].append(ended)
        with self._changed, self._ending:  # a request that is cancelled is noted with its new state
            while self._ended:
                request = self._ended.popleft()
                self._unfinished.discard(request)
                if isinstance(request.waiter, Event):
                    request.waiter.set()
                elif request.waiter is not None:
                    by_loop[request.waiter.get_loop()].append((request.waiter, None, None))
        for loop, several in by_loop.items():
            with suppress(RuntimeError):  # closed, so that nobody waits
                loop.call_soon_threadsafe(_resolve, several)

    def _fail(self, error: BaseException) -> None:
        """Pass an error of the engine to all who wait."""

        def failure() -> RuntimeError:
            failure = RuntimeError(f"the engine failed while sentences waited: {error!r}")
            failure.__cause__ = error
            return failure

        with self._changed:
            waiting = [request for request in self._unfinished if not request.has_ended]
            self._has_failed = not waiting
            for request in waiting:
                request.fail(failure())
            for job in self._jobs:
                job.error = failure()
            self._begun += self._jobs
            self._jobs.clear()
            for _, admitted in self._unadmitted:
                admitted.set()
            self._unadmitted.clear()


def _resolve(several: list[Ended]) -> None:
    """Wake up the tasks that wait. Called in the thread of their loop."""
    for future, result, error in several:
        if future.done():
            continue
        if error:
            future.set_exception(error)
        else:
            future.set_result(result)
