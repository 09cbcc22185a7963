"""The gradients of values: sums over all operations that read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.layout import Read
from parser.batching.operations.operation import ALL


class ValueGradients:
    """The first gradient of a row is written, and further gradients are added.

    Rows are set to zero in advance only if writing is impossible: if no operation reads them, or if the first
    gradient does not cover all columns, is not the first for all of its rows, or contains a row twice.
    """

    def __init__(self, values: Mapping[int, Tensor], reads: Sequence[Read], add_all: bool):
        """values: by width, [rows, width]; reads: in the order in which their gradients are added.

        add_all: set all rows to zero and write none, which is faster for reads of single rows.
        """
        self._reads, self._by_width = reads, {w: torch.empty_like(held) for w, held in values.items()}
        self._first, self._only = [False] * len(reads), [False] * len(reads)
        numbers: dict[int, list[int]] = defaultdict(list)
        if not add_all:
            for number, read in enumerate(reads):
                numbers[read.width].append(number)
        for width, total in self._by_width.items():
            own = _order([reads[number] for number in numbers[width]], len(total))
            for number, is_first, is_only in zip(numbers[width], own.first, own.only, strict=True):
                self._first[number], self._only[number] = is_first, is_only
            _clear(total, own.unwritten)

    def of(self, width: int, start: int, count: int) -> Tensor:
        """[count, width] The gradients from row `start` on; a view."""
        return self._by_width[width][start : start + count]

    def place(self, number: int) -> Tensor | None:
        """[length, width] A view of the rows of a read; None if other reads share them or they lie apart."""
        if not self._only[number]:
            return None
        read = self._reads[number]
        return self.of(read.width, read.start, read.length)

    def add(self, number: int, gradient: Tensor | None) -> None:
        """Add the gradient of a read.

        number: the number of the read; gradient: [length, columns], or a reshaped form of it; None for zero.
        """
        read = self._reads[number]
        _add(self._by_width[read.width], read, gradient, self._first[number])


class _Order(NamedTuple):
    first: list[bool]
    """Whether the gradient of each read is the first of all its rows."""
    only: list[bool]
    """Whether the gradient of each read is the only one, and the rows are contiguous."""
    unwritten: Integers
    """The rows to which no first gradient is written."""


def _order(reads: Sequence[Read], rows: int) -> _Order:
    if not reads:
        return _Order([], [], np.arange(rows))
    sizes = [read.length for read in reads]
    number = np.arange(len(reads)).repeat(sizes)
    row = np.concatenate([read.rows for read in reads])
    first = np.empty(rows, np.int64)
    first[row[::-1]] = number[::-1]
    is_first = first[row] == number
    once = np.bincount(row[is_first], minlength=rows) == 1
    count = np.bincount(number[is_first & once[row]], minlength=len(reads))
    found = (count == sizes) & np.array([read.columns == ALL for read in reads])
    alone = np.bincount(number[(np.bincount(row, minlength=rows) == 1)[row]], minlength=len(reads)) == sizes
    in_place = np.array([read.on_device is None for read in reads])
    unwritten = np.ones(rows, bool)
    unwritten[row[found[number]]] = False
    return _Order(found.tolist(), (found & alone & in_place).tolist(), np.flatnonzero(unwritten))


def _clear(total: Tensor, rows: Integers) -> None:
    if 2 * len(rows) > len(total):
        total.zero_()
    elif len(rows):
        total.index_fill_(0, to_device(torch.from_numpy(rows), total.device), 0.0)


def _add(total: Tensor, read: Read, gradient: Tensor | None, first: bool) -> None:
    """Add a gradient to the total, or write it if it is the first."""
    if gradient is None:
        if first:
            total[read.in_place or read.on_device] = 0.0
        return
    if len(gradient) != read.length:  # the gradient of a pack of several arguments
        gradient = gradient.reshape(read.length, -1)
    if read.columns != ALL:
        total = total[:, read.columns]
    if read.on_device is None:
        own = total[read.in_place]
        if first:
            own.copy_(gradient)
        else:
            own += gradient
    elif first:
        total.index_copy_(0, read.on_device, _apart(gradient, total))
    else:
        total.index_add_(0, read.on_device, _apart(gradient, total))


def _apart(gradient: Tensor, total: Tensor) -> Tensor:
    """Copy a gradient that shares its storage with the total: index operations refuse that for any rows."""
    shared = gradient.untyped_storage().data_ptr() == total.untyped_storage().data_ptr()
    return gradient.clone() if shared else gradient
