"""What a device's memory may be too small for, in as many pieces as it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from parser.console import say
from parser.machine import one_memory_error

Result = TypeVar("Result")


def in_pieces(compute: Callable[[Sequence[Tensor]], Result], rows: Tensor, lengths: Tensor) -> Result:
    """compute([rows]); where memory is too small, compute begins anew with twice as many pieces of the rows.

    rows: [batch] of sentences, lengths: [sentences] in words. Raises ValueError if it is too small for one.
    """
    pieces = 1
    while True:
        try:
            with one_memory_error():
                return compute(rows.tensor_split(pieces))
        except torch.OutOfMemoryError:
            if pieces == len(rows):
                words = int(lengths[rows].max())
                message = f"the device has too little memory for a sentence of {words:,} words"
                raise ValueError(message) from None
        pieces = min(2 * pieces, len(rows))
        say(f"out of memory: a batch of {len(rows)} sentences is computed in {pieces} pieces")
