"""Runs pieces of work in several processes, and returns the answers in the order of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from typing import Any

from parser.system.remote import Remote, RemoteError

OF_INPUT = "error: ValueError: "
"""Start of the status of a failure that is due to the input."""
OF_PROGRAM = "error: "
"""Start of the status for other exceptions, which have a traceback, and if the process died."""
AHEAD = 2
"""Pieces for each process that are being computed or wait for an earlier one. This limits the memory."""


@contextmanager
def start_workers(
    make: Callable[..., object], arguments: Sequence[Any], processes: int
) -> Iterator[list[Remote]]:
    """Start processes that have called `make` with the arguments. They exit with the block.

    Raises ValueError if one of them fails.
    """
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Remote(make, *arguments, advice="use fewer --processes"))
            for _ in range(processes)
        ]
        for worker in workers:
            with _named(worker, workers):
                worker.begin_making()
        for worker in workers:
            with _named(worker, workers):
                worker.answer()
        yield workers


def answers(workers: Sequence[Remote], work: Iterable[object]) -> Iterator[Any]:
    """Yield the answers of the method `run` for each piece of work, in the order of the work.

    Raises ValueError if a process dies or the method fails, after the answers for earlier work; no more work
    starts then.
    """
    pieces = enumerate(work)
    busy: dict[Remote, int] = {}
    done: dict[int, Any] = {}
    following, failed = 0, False
    while True:
        for worker in workers:
            has_room = len(busy) + len(done) < AHEAD * len(workers)
            if worker not in busy and has_room and not failed and (numbered := next(pieces, None)):
                busy[worker], piece = numbered
                with _named(worker, workers):
                    worker.begin("run", piece)
        if not busy:
            return
        ready = wait([worker.connection for worker in busy])
        for worker in [worker for worker in busy if worker.connection in ready]:
            try:
                with _named(worker, workers):
                    answer = worker.answer()
            except ValueError as error:
                answer, failed = error, True
            done[busy.pop(worker)] = answer
            while following in done:
                if isinstance(answer := done.pop(following), ValueError):
                    raise answer
                yield answer
                following += 1


@contextmanager
def _named(worker: Remote, workers: Sequence[Remote]) -> Iterator[None]:
    try:
        yield
    except RemoteError as error:
        if error.status.startswith(OF_INPUT):
            raise ValueError(error.status.removeprefix(OF_INPUT)) from None
        message = (
            f"process {workers.index(worker) + 1} of {len(workers)}: {error.status.removeprefix('error: ')}"
        )
        if error.status.startswith(OF_PROGRAM) and error.traceback:
            bug = RuntimeError(message)
            bug.add_note(error.traceback)
            raise bug from None
        raise ValueError(message) from None
