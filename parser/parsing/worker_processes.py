"""Runs pieces of work in several processes, and returns the answers in the order of the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from typing import Any

from parser.system.console import warn
from parser.system.remote import OF_PROGRAM, Remote, RemoteError

OF_INPUT = f"{OF_PROGRAM}ValueError: "
"""Start of the status of a failure that is due to the input."""
AHEAD = 2
"""Pieces for each process that are being computed or wait for an earlier one. This limits the memory."""
MOST_DEATHS = 3
"""Number of processes that may die of a piece before it is given up."""


@contextmanager
def start_workers(
    make: Callable[..., object], arguments: Sequence[Any], processes: int
) -> Iterator[list[Remote]]:
    """Start processes that have called `make` with the arguments. They exit with the block.

    Raises ValueError if one of them fails.
    """
    workers: list[Remote] = []
    try:
        for _ in range(processes):
            workers.append(Remote(make, *arguments, advice="use fewer --processes"))
        try:
            for worker in workers:
                worker.begin_making()
            for worker in workers:
                worker.answer()
        except RemoteError as error:
            raise _told(error, f"process {workers.index(worker) + 1} of {processes}") from None
        yield workers
    finally:
        for worker in workers:
            worker.close()


def answers(
    workers: list[Remote], work: Iterable[object], name_of: Callable[[Any], str] = str
) -> Iterator[Any]:
    """Yield the answers of the method `run` for each piece of work, in the order of the work.

    A process that dies is replaced in `workers`, and its piece is computed again. name_of: the name of a
    piece for messages. Raises ValueError if several processes have died of one piece, or if the method fails,
    after the answers for earlier work; no more work starts then.
    """
    pieces = enumerate(work)
    busy: dict[Remote, tuple[int, object]] = {}
    done: dict[int, Any] = {}
    deaths: Counter[int] = Counter()
    following, failed = 0, False
    while True:
        for worker in workers:
            has_room = len(busy) + len(done) < AHEAD * len(workers)
            if worker not in busy and has_room and not failed and (numbered := next(pieces, None)):
                busy[worker] = numbered
                _begin(worker, numbered[1])
        if not busy:
            return
        ready = wait([worker.connection for worker in busy])
        for worker in [worker for worker in busy if worker.connection in ready]:
            number, piece = busy.pop(worker)
            place = workers.index(worker)
            process = f"process {place + 1} of {len(workers)}"
            try:
                done[number] = worker.answer()
            except RemoteError as error:
                deaths[number] += error.is_death
                if error.is_death and deaths[number] < MOST_DEATHS:
                    why = error.status.removeprefix(OF_PROGRAM)
                    warn(f"warning: {process}: {why}. Another one takes over {name_of(piece)}")
                    workers[place] = worker.again()
                    busy[workers[place]] = number, piece
                    _begin(workers[place], piece)
                    continue
                if error.is_death:
                    process = f"{name_of(piece)}: has ended {MOST_DEATHS} processes, the last one"
                done[number], failed = _told(error, process), True
            while following in done:
                if isinstance(answer := done.pop(following), ValueError):
                    raise answer
                yield answer
                following += 1


def _begin(worker: Remote, piece: object) -> None:
    with suppress(RemoteError):  # it is dead, which its answer will tell
        worker.begin("run", piece)


def _told(error: RemoteError, process: str) -> ValueError:
    """The error to raise for a failure in a process. Raises RuntimeError if it is a bug."""
    if error.status.startswith(OF_INPUT):
        return ValueError(error.status.removeprefix(OF_INPUT))
    message = f"{process}: {error.status.removeprefix(OF_PROGRAM)}"
    if error.status.startswith(OF_PROGRAM) and not error.is_death:
        bug = RuntimeError(message)
        bug.add_note(error.traceback)
        raise bug
    return ValueError(message)
