"""Microbatches: a batch for which the device's memory is too small is computed in several parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from parser.system.console import warn
from parser.system.machine import is_of_memory

Result = TypeVar("Result")


class TooLongError(ValueError):
    """The device's memory is too small for a single sentence, whose number is `row`."""

    def __init__(self, row: int, words: int):
        super().__init__(f"the device has too little memory for a sentence of {words:,} words")
        self.row = row


def in_microbatches(compute: Callable[[Sequence[Tensor]], Result], rows: Tensor, lengths: Tensor) -> Result:
    """compute([rows]), or if memory is too small, compute(twice as many microbatches) from the start.

    rows: [batch] numbers of sentences; lengths: [sentences] in words. Raises TooLongError.
    """
    count = 1
    while True:
        try:
            with one_memory_error():
                return compute(rows.tensor_split(count))
        except torch.OutOfMemoryError:
            if count == len(rows):
                longest = rows[lengths[rows].argmax()]
                raise TooLongError(int(longest), int(lengths[longest])) from None
        torch.cuda.empty_cache()  # CUDA's libraries can not use what PyTorch keeps
        count = min(2 * count, len(rows))
        warn(f"out of memory: a batch of {len(rows)} sentences is computed as {count} microbatches")


@contextmanager
def one_memory_error() -> Iterator[None]:
    """Raises torch.OutOfMemoryError wherever memory is too small, also on the host."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_of_memory(error) and not isinstance(error, torch.OutOfMemoryError):
            raise torch.OutOfMemoryError(str(error)) from None
        raise
