"""Values that are computed in batches: forward in order, and backward in reverse order.

This is the common part of computations with a recorded structure and with a structure known in advance. The
backward pass runs the batches of a tape in reverse order. The gradient of a value is the sum over all
operations that read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

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
    run_forward,
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
    for operation, before in {(entry.step.operation, entry.versions) for entry in led}:
        for parameter, old, new in zip(operation.parameters, before, versions_of(operation), strict=True):
            if old != new:
                raise RuntimeError(
                    f"a parameter of {operation.name}, of shape {list(parameter.shape)}, was changed "
                    "in place after values were computed from it: take all gradients before the optimizer's "
                    "step, and record the next ones in a new graph"
                )
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


class GivenRows(NamedTuple):
    """Where external values are."""

    width: int
    start: int
    """The first row."""
    length: int


FAILED = "an error has stopped a batch before all were computed; record them again in a new graph"
NOT_RUN = "batches were scheduled, but not run; give what `schedule` returned to `run`"


class Computation:
    """Values, identified by numbers, and a tape of the batches that computed them."""

    def __init__(self, device: torch.device | str, dtype: torch.dtype, unbatched: bool, gradients: bool):
        """unbatched: batches are single operations, and the parameters' gradients are added after each.

        gradients: keep what `backward` needs.
        """
        self._device, self._dtype = torch.device(device), dtype
        self._unbatched, self._gradients = unbatched, gradients
        self._row: Integers = np.empty(0, np.int64)  # [values] the row of each value
        self._used: dict[int, int] = {}  # the number of rows in use, by width
        self._blocks: dict[int, Tensor] = {}  # the rows, by width: [capacity, width]
        self._given: list[tuple[GivenRows, Tensor]] = []  # external values
        self._tape: list[TapeEntry] = []
        self._fault = ""  # why values cannot be read

    @torch.no_grad()
    def run(self, steps: Sequence[Step]) -> None:
        """Run the batches returned by `schedule`, in order. Errors get a note that names the operation."""
        if self._fault != NOT_RUN:
            self._check()
        self._reserve()
        blocks, self._fault = self._blocks, FAILED
        versions = {operation: versions_of(operation) for operation in {step.operation for step in steps}}
        for step in steps:
            operation, count = step.operation, step.length
            inputs = [_gather(blocks[read.width], read, count) for read in step.inputs]
            outputs = [blocks[width][start : start + count] for width, start in step.outputs]
            batch = OperationBatch(inputs, outputs, step.indices)
            try:
                run_forward(operation, batch)
            except Exception as error:
                shapes = ", ".join(str(list(rows.shape)) for rows in inputs) or "none"
                error.add_note(f"by {operation.name}, for {count} examples; inputs [rows, width]: {shapes}")
                raise
            if self._gradients:
                self._tape.append(TapeEntry(step, batch, versions[operation]))
        self._fault = ""

    def rows(self, values: Integers, width: int) -> Tensor:
        """[values, width] Return a copy of computed values of equal width. Raises ValueError.

        Unless gradients are off, autograd differentiates the copy with respect to the parameters and the
        given tensors. As with any tensor, its backward pass runs only once unless the graph is retained, and
        not after a parameter was changed in place.
        """
        self._check()
        rows = self._row[values]
        if not (self._gradients and torch.is_grad_enabled() and len(rows)):
            return self._copied(rows, width)
        given = [(where, rows) for where, rows in self._given if rows.requires_grad]
        parameters = list(trained_parameters(operations_of(self._tape)))
        run = _Run(
            partial(self._copied, rows, width),
            partial(self._backpropagate, len(self._tape), rows),
            [where for where, _ in given],
            parameters,
        )
        copy: Tensor = _Values.apply(run, *(rows for _, rows in given), *parameters)
        return copy

    def _copied(self, rows: Integers, width: int) -> Tensor:
        """[rows, width] A copy of rows."""
        if not len(rows):
            return torch.empty(0, width, device=self._device, dtype=self._dtype)
        return self._blocks[width].index_select(0, to_device(torch.from_numpy(rows), self._device))

    def backward(self, values: Integers, gradient: Tensor | None = None) -> list[Tensor]:
        """Backpropagate from computed values, and add to the parameters' `.grad`, without autograd.

        gradient: [values, width], the gradient of the loss with respect to the values; None if the values are
        losses of width 1, which are summed. Returns the gradients with respect to the given tensors. Can be
        called only once, because it frees what the forward pass has saved. Batches that do not lead to the
        values are left out, as in autograd. Raises ValueError, and RuntimeError if a parameter was changed in
        place since the values were computed.
        """
        if not self._gradients:
            raise ValueError(
                "no gradients: created with gradients=False, or backward was called before, which frees what "
                "it needs: give it all losses at once"
            )
        self._check()
        self._gradients = False
        gradient = self._gradient(gradient, len(values))
        of_values, of_parameters = self._backpropagate(len(self._tape), self._row[values], gradient)
        self._tape = []
        of_parameters.add_to_parameters()
        return [of_values.of(*given) for given, _ in self._given]

    def _backpropagate(
        self, batches: int, rows: Integers, gradient: Tensor
    ) -> tuple[ValueGradients, ParameterGradients]:
        """Backpropagate from rows of values of one width. Raises RuntimeError.

        batches: the number that had run when the rows were read; gradient: [rows, width].
        """
        if batches > len(self._tape):
            raise RuntimeError(
                "`backward` of the graph was called before, and has added these gradients: take values under "
                "`torch.no_grad()` where it is used, or let autograd take all gradients"
            )
        on_device = to_device(torch.from_numpy(rows), self._device)
        read = Read(gradient.shape[1], ALL, 0, len(rows), rows, on_device)
        blocks = {width: self._blocks[width][:used] for width, used in self._used.items()}
        return backpropagate(self._tape[:batches], blocks, read, gradient, self._unbatched)

    def _gradient(self, gradient: Tensor | None, values: int) -> Tensor:
        """[values, width] The given gradient, or that of losses if it is None. Raises ValueError."""
        if gradient is None:
            return torch.ones(values, 1, device=self._device, dtype=self._dtype)
        if not isinstance(gradient, Tensor):
            raise TypeError(f"the gradient must be a tensor, not {type(gradient).__name__}")
        if gradient.dim() != 2 or len(gradient) != values:
            shape = list(gradient.shape)
            raise ValueError(f"the gradient must be [{values}, width], a row for each value, not {shape}")
        if gradient.dtype != self._dtype:
            raise ValueError(f"a gradient of {gradient.dtype}, but the values are of {self._dtype}")
        return gradient

    def _give(self, first: int, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]. Raises ValueError."""
        if not isinstance(rows, Tensor):
            raise TypeError(
                f"values are the rows of a tensor [values, width], not of a {type(rows).__name__}: "
                f"`torch.as_tensor(rows, dtype={self._dtype})` makes one"
            )
        if rows.dim() != 2 or not rows.shape[1]:
            hint = ": a single value is `rows[None]`" if rows.dim() == 1 else ""
            raise ValueError(
                f"values are the rows of a tensor [values, width], not of one of shape {list(rows.shape)}"
                f"{hint}"
            )
        if rows.dtype != self._dtype:
            hint = f", or create it with dtype={rows.dtype}" if rows.is_floating_point() else ""
            raise ValueError(
                f"values of {rows.dtype}, but the computation is of {self._dtype}: convert them by "
                f"`rows.to({self._dtype})`{hint}"
            )
        count, width = rows.shape
        start = self._used.get(width, 0)
        self._used[width] = start + count
        self._make_room(first + count)
        self._row[first : first + count] = np.arange(start, start + count)
        self._reserve()
        self._blocks[width][start : start + count] = rows.detach()
        self._given.append((GivenRows(width, start, count), rows))

    def _check(self) -> None:
        if self._fault:
            raise ValueError(f"values cannot be read: {self._fault}")

    def _make_room(self, values: int) -> None:
        """Make room for at least this number of values in total."""
        if values > len(self._row):
            self._row = np.concatenate([self._row, np.empty(values, np.int64)])

    def _reserve(self) -> None:
        """Make sure that there are blocks for all rows in use."""
        for width, rows in self._used.items():
            held = self._blocks.get(width)
            if held is not None and len(held) >= rows:
                continue
            capacity = rows if held is None else max(rows, 2 * len(held))
            grown = torch.empty(capacity, width, device=self._device, dtype=self._dtype)
            if held is not None:
                grown[: len(held)] = held
            self._blocks[width] = grown


def _gather(values: Tensor, read: Read, count: int) -> Tensor:
    """[count, columns], or [count, arguments * columns] for a pack of several arguments."""
    if read.columns != ALL:
        values = values[:, read.columns]
    rows = read.on_device
    gathered = values[read.in_place] if rows is None else values.index_select(0, rows)
    return gathered if read.length == count else gathered.reshape(count, -1)


class _Run(NamedTuple):
    """What autograd needs to know about a computation."""

    forward: Callable[[], Tensor]
    backward: Callable[[Tensor], tuple[ValueGradients, ParameterGradients]]
    given: list[GivenRows]
    parameters: list[Tensor]


class _Values(Function):
    """Values of a computation, as a function of the tensors that were given and of the parameters."""

    @staticmethod
    def forward(ctx: Any, run: _Run, *_: Tensor) -> Tensor:
        ctx.run = run
        return run.forward()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # empty, but a second access is an error unless the graph is retained
        run: _Run = ctx.run
        of_values, of_parameters = run.backward(gradient)
        return None, *(of_values.of(*given) for given in run.given), *map(of_parameters.of, run.parameters)
