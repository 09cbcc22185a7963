"""The gradients with respect to all values of a computation, while a backward pass fills them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.operations.layout import Read
from parser.batching.operations.operation import ALL


class ValueGradients:
    """Sums over the readers of a value.

    Where each value of a width has exactly one reader, there is nothing to sum: the gradients are written,
    and their memory is not set to zero first.
    """

    def __init__(self, values: Mapping[int, Tensor], reads: Iterable[tuple[Read, slice]]):
        """values: by width, [rows, width]; reads: each with the columns that it has read.

        Each read must be passed to `add` once, before the gradients of its values are used.
        """
        readers: dict[int, list[tuple[Read, slice]]] = defaultdict(list)
        for read, columns in reads:
            readers[read.width].append((read, columns))
        self._read_once = {width for width, held in values.items() if _read_once(readers[width], len(held))}
        self._by_width = {
            width: torch.empty_like(held) if width in self._read_once else torch.zeros_like(held)
            for width, held in values.items()
        }

    def of(self, width: int, start: int, count: int) -> Tensor:
        """[count, width] From row `start` on; a view."""
        return self._by_width[width][start : start + count]

    def add(self, read: Read, columns: slice, gradient: Tensor | None) -> None:
        """gradient: with respect to what was read, [length, columns] or a reshaped form; None for zero."""
        total = self._by_width[read.width]
        if read.width in self._read_once:
            _write(total, read, None if gradient is None else _in_rows(gradient, read))
        elif gradient is not None:
            _add(total if columns == ALL else total[:, columns], read, _in_rows(gradient, read))


def _read_once(reads: Sequence[tuple[Read, slice]], rows: int) -> bool:
    """Whether each row is read exactly once, with all its columns."""
    if sum(read.length for read, _ in reads) != rows or any(columns != ALL for _, columns in reads):
        return False
    seen = np.zeros(rows, bool)
    for read, _ in reads:
        seen[_place(read) if read.rows is None else read.rows] = True
    return bool(seen.all())


def _place(read: Read) -> slice:
    return slice(read.start, read.start + read.length)


def _in_rows(gradient: Tensor, read: Read) -> Tensor:
    """[length, columns] From [rows, arguments * columns] for a pack of several arguments."""
    return gradient if len(gradient) == read.length else gradient.reshape(read.length, -1)


def _write(total: Tensor, read: Read, gradient: Tensor | None) -> None:
    rows = _place(read) if read.on_device is None else read.on_device
    if gradient is None:
        total[rows] = 0.0
    elif read.on_device is None:
        total[rows] = gradient
    else:
        total.index_copy_(0, read.on_device, _apart(gradient, total))


def _add(total: Tensor, read: Read, gradient: Tensor) -> None:
    if read.on_device is None:
        total[_place(read)] += gradient
    else:
        total.index_add_(0, read.on_device, _apart(gradient, total))


def _apart(gradient: Tensor, total: Tensor) -> Tensor:
    """In another storage than the total: index operations refuse the same, even for different rows."""
    shared = gradient.untyped_storage().data_ptr() == total.untyped_storage().data_ptr()
    return gradient.clone() if shared else gradient
