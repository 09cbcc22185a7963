"""Parts of a file, each computed by one of several processes, with the results in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from typing import Any

from parser.remote import Remote, RemoteError
from parser.treebank.conllu import Block

PART_LINES = 40_000
"""Of a part: two thousand sentences. Larger parts fill batches better, smaller ones end together."""
AHEAD = 2
"""Parts for each process that are computed or wait for an earlier one, which limits the memory."""


def parts(blocks: Iterable[Block], lines: int = PART_LINES) -> Iterator[list[Block]]:
    """Consecutive blocks with at least this number of lines, but for the last part."""
    part: list[Block] = []
    size = 0
    for block in blocks:
        part.append(block)
        size += len(block.lines)
        if size >= lines:
            yield part
            part, size = [], 0
    if part:
        yield part


def in_processes(
    make: Callable[..., object], arguments: Sequence[Any], processes: int, work: Iterable[object]
) -> Iterator[Any]:
    """The answers of the method `run` for each piece of work, in its order.

    make: called with the arguments in each process. Raises ValueError if a process dies or the method fails.
    """
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Remote(make, *arguments, advice="use fewer --processes"))
            for _ in range(processes)
        ]
        answers: dict[int, Any] = {}
        following = 0
        for number, answer in _as_they_come(workers, work, lambda: len(answers)):
            answers[number] = answer
            while following in answers:
                yield answers.pop(following)
                following += 1


def _as_they_come(
    workers: Sequence[Remote], work: Iterable[object], waiting: Callable[[], int]
) -> Iterator[tuple[int, Any]]:
    """The number of each piece of work, and its answer.

    waiting: returns the number of answers that wait for earlier ones.
    """
    pieces = enumerate(work)
    busy: dict[Remote, int] = {}
    while True:
        for worker in workers:
            has_room = len(busy) + waiting() < AHEAD * len(workers)
            if worker not in busy and has_room and (found := next(pieces, None)):
                busy[worker], piece = found
                with _named(worker, workers):
                    worker.begin("run", piece)
        if not busy:
            return
        ready = wait([worker.connection for worker in busy])
        for worker in [worker for worker in busy if worker.connection in ready]:
            with _named(worker, workers):
                answer = worker.answer()
            yield busy.pop(worker), answer


@contextmanager
def _named(worker: Remote, workers: Sequence[Remote]) -> Iterator[None]:
    try:
        yield
    except RemoteError as error:
        place = f"process {workers.index(worker) + 1} of {len(workers)}"
        raise ValueError(f"{place}: {error.status.removeprefix('error: ')}") from None
