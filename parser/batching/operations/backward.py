"""The backward pass: the batches of a tape in reverse order.

The gradient of a value is the sum over all operations that read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.layout import Read, Step
from parser.batching.operations.operation import (
    ALL,
    HOW_TO,
    Operation,
    OperationBatch,
    ParameterGradients,
    run_backward,
    trained_parameters,
)

Versions = tuple[int, ...]
"""The number of in-place changes of each parameter of an operation, as counted by autograd."""


class TapeEntry(NamedTuple):
    """A batch that has run."""

    step: Step
    batch: OperationBatch
    versions: Versions
    """The versions at the time when the batch ran."""


@torch.no_grad()
def backpropagate(
    tape: Sequence[TapeEntry], blocks: Mapping[int, Tensor], last: Read, gradient: Tensor, unbatched: bool
) -> tuple[ValueGradients, ParameterGradients]:
    """Return the gradients of all values and parameters. The tape can be used again.

    blocks: the values by width, [rows, width] each; last: the values from which to backpropagate; gradient:
    [length, width], with respect to `last`; unbatched: batches are single operations, whose parameters'
    gradients are added one by one. Like autograd, raises RuntimeError if a parameter has been changed in
    place since the batches ran.
    """
    led = _batches_that_lead_to(last, tape, blocks)
    _check_unchanged(led)
    reads = [last, *(read for entry in led for read in entry.step.inputs)]
    values, parameters = ValueGradients(blocks, reads, add_all=unbatched), ParameterGradients()
    if last.length:
        values.add(0, gradient)
    kept: dict[Hashable, tuple[Operation, list[tuple[Tensor, ...]]]] = {}
    next_read = 1
    for step, batch, _ in led:
        operation, count = step.operation, step.length
        d_outputs = [values.of(width, start, count) for width, start in step.outputs]
        numbers = range(next_read, next_read := next_read + len(step.inputs))
        if not unbatched:
            batch.input_gradients = [values.target(number, count) for number in numbers]
        result = run_backward(operation, batch, d_outputs)
        for number, d_input, target in zip(numbers, result.inputs, batch.input_gradients, strict=True):
            if d_input is None or d_input is not target:
                values.add(number, d_input)
        batch.input_gradients = (None,) * len(numbers)  # they would keep all gradients alive
        if not result.kept:
            continue
        if operation.keeps_rows and (operation.only_gathers or not unbatched):
            kept.setdefault(operation.signature(), (operation, []))[1].append(result.kept)
        else:
            operation.accumulate([result.kept], parameters)
    for operation, rows in kept.values():
        operation.accumulate(rows[::-1], parameters)  # in schedule order, like the rows
    _check_complete(parameters, trained_parameters(operations_of(led)))
    return values, parameters


def operations_of(tape: Iterable[TapeEntry]) -> Iterable[Operation]:
    """Return the operations of the batches, each once."""
    return {entry.step.operation: None for entry in tape}


def _check_complete(parameters: ParameterGradients, trained: Mapping[Tensor, Operation]) -> None:
    """Raises ValueError if a parameter got no gradient, or a tensor that is no parameter got one."""
    for parameter, operation in trained.items():
        if parameters.of(parameter) is None:
            raise ValueError(
                f"{operation.name} adds no gradient of its parameter of shape {list(parameter.shape)}: "
                f"`backward` returns what it needs as `kept`, and `accumulate` adds it; {HOW_TO}"
            )
    for parameter in parameters.all():
        if parameter not in trained:
            raise ValueError(
                f"an operation adds a gradient of a tensor of shape {list(parameter.shape)}, which no "
                f"operation names in `parameters`; {HOW_TO}"
            )


def versions_of(operation: Operation) -> Versions:
    return tuple(
        [0 if parameter.is_inference() else parameter._version for parameter in operation.parameters]
    )


def _check_unchanged(tape: Iterable[TapeEntry]) -> None:
    for operation, before in {(entry.step.operation, entry.versions) for entry in tape}:
        for parameter, old, new in zip(operation.parameters, before, versions_of(operation), strict=True):
            if old != new:
                raise RuntimeError(
                    f"a parameter of {operation.name}, of shape {list(parameter.shape)}, was changed "
                    "in place after values were computed from it: take all gradients before the optimizer's "
                    "step, and record the next ones in a new graph"
                )


def _batches_that_lead_to(
    last: Read, tape: Sequence[TapeEntry], blocks: Mapping[int, Tensor]
) -> list[TapeEntry]:
    """Return the batches whose values are in `last` or read by another such batch, the last batch first."""
    needed = {width: np.zeros(len(block), np.bool_) for width, block in blocks.items()}

    def need(read: Read) -> None:
        needed[read.width][read.in_place or read.rows] = True

    leading: list[TapeEntry] = []
    if last.length:
        need(last)
    for entry in reversed(tape):
        step = entry.step
        if any(needed[width][start : start + step.length].any() for width, start in step.outputs):
            leading.append(entry)
            for read in step.inputs:
                need(read)
    return leading


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
            order = _order([reads[number] for number in numbers[width]], len(total))
            for number, is_first, is_only in zip(numbers[width], order.first, order.only, strict=True):
                self._first[number], self._only[number] = is_first, is_only
            if 2 * len(order.unwritten) > len(total):
                total.zero_()
            elif len(order.unwritten):
                unwritten = to_device(torch.from_numpy(order.unwritten), total.device)
                total.index_fill_(0, unwritten, 0.0)

    def of(self, width: int, start: int, count: int) -> Tensor:
        """[count, width] The gradients from row `start` on; a view."""
        return self._by_width[width][start : start + count]

    def target(self, number: int, count: int) -> Tensor | None:
        """A view of the rows of a read, into which its gradient can be written; None if other reads share
        them or they lie apart.

        Its shape is [count, width], or [count, arguments * width] for a pack of several arguments.
        """
        if not self._only[number]:
            return None
        read = self._reads[number]
        rows = self.of(read.width, read.start, read.length)
        return rows if read.length == count else rows.view(count, -1)

    def add(self, number: int, gradient: Tensor | None) -> None:
        """Add the gradient of a read.

        number: the number of the read; gradient: [length, columns], or a reshaped form of it; None for zero.
        """
        read, is_first = self._reads[number], self._first[number]
        total = self._by_width[read.width]
        if gradient is None:
            if is_first:
                total[read.in_place or read.on_device] = 0.0
            return
        if len(gradient) != read.length:  # the gradient of a pack of several arguments
            gradient = gradient.reshape(read.length, -1)
        if read.columns != ALL:
            total = total[:, read.columns]
        if read.on_device is None:
            rows = total[read.in_place]
            if is_first:
                rows.copy_(gradient)
            else:
                rows += gradient
            return
        if gradient.untyped_storage().data_ptr() == total.untyped_storage().data_ptr():
            gradient = gradient.clone()  # index operations refuse a shared storage, even of other rows
        if is_first:
            total.index_copy_(0, read.on_device, gradient)
        else:
            total.index_add_(0, read.on_device, gradient)


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
    writes = (count == sizes) & np.array([read.columns == ALL for read in reads])
    alone = np.bincount(number[(np.bincount(row, minlength=rows) == 1)[row]], minlength=len(reads)) == sizes
    in_place = np.array([read.on_device is None for read in reads])
    unwritten = np.ones(rows, bool)
    unwritten[row[writes[number]]] = False
    return _Order(writes.tolist(), (writes & alone & in_place).tolist(), np.flatnonzero(unwritten))
