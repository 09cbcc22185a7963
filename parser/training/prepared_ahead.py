"""Preparing batches ahead: a thread makes the next ones on the host while a GPU computes the present one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from torch import Tensor

AHEAD = 2
"""Batches that wait at most; more would only take memory."""
Prepared = TypeVar("Prepared")


def prepared_ahead(prepare: Callable[[Tensor], Prepared], batches: Iterable[Tensor]) -> Iterator[Prepared]:
    """prepare(rows) for the rows of each batch, in order. Raises what `prepare` raises, for its batch.

    To be closed if it is not read to its end.
    """
    waiting: deque[Future[Prepared]] = deque()
    with ThreadPoolExecutor(1, "batches") as thread:
        try:
            for rows in batches:
                waiting.append(thread.submit(prepare, rows))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
