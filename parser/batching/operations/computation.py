"""Values that are computed in batches: forward in order, and backward in reverse order.

Common to computations whose structure is recorded and those whose structure is known in advance, which run
level by level (Suarez & Zhu 2017, section 3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers, batches
from parser.batching.operations.layout import Applications, BatchPart, Layout, Read, Step
from parser.batching.operations.operation import ALL, Operation, OperationBatch
from parser.batching.operations.template import Value


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


class StepRunner:
    """The values of a computation, and a tape of the batches that computed them."""

    def __init__(self, device: torch.device, dtype: torch.dtype, unbatched: bool, gradients: bool):
        """unbatched: accumulate the parameters' gradients batch by batch.

        gradients: keep what `backward` needs.
        """
        self._device, self._dtype = device, dtype
        self._unbatched, self._gradients = unbatched, gradients
        self._values: dict[int, Tensor] = {}  # by width: [capacity, width]
        self._given: list[tuple[int, int, int]] = []  # external values: width, first row, number of rows
        self._tape: list[tuple[Step, OperationBatch]] = []

    @torch.no_grad()
    def give(self, start: int, rows: Tensor) -> None:
        """Write external values [rows, width], from row `start` on."""
        count, width = rows.shape
        self._reserve(width, start + count)
        self._values[width][start : start + count] = rows
        self._given.append((width, start, count))

    @torch.no_grad()
    def forward(self, steps: Sequence[Step], used: Mapping[int, int]) -> None:
        """used: the number of rows in use after these steps, by width."""
        for width, rows in used.items():
            self._reserve(width, rows)
        values = self._values
        for step in steps:
            operation, count = step.operation, step.length
            inputs = [_gather(values[read.width], read, count, operation.columns) for read in step.inputs]
            outputs = [values[width][start : start + count] for width, start in step.outputs]
            batch = OperationBatch(inputs, outputs, step.indices)
            operation.forward(batch)
            if self._gradients:
                self._tape.append((step, batch))

    def rows(self, width: int, rows: Integers) -> Tensor:
        """[len(rows), width] A copy of some values."""
        if not len(rows):
            return torch.empty(0, width, device=self._device, dtype=self._dtype)
        return self._values[width].index_select(0, to_device(torch.from_numpy(rows), self._device))

    @torch.no_grad()
    def backward(self, rows: Integers, gradient: Tensor) -> list[Tensor]:
        """Backpropagate from some values, and add to the parameters' gradients.

        rows: of these values; gradient: [len(rows), width], with respect to them. Returns the gradients with
        respect to the external values.
        """
        if not self._gradients:
            raise ValueError("no gradients: created with gradients=False, or backward was called before")
        self._gradients = False
        last = Read(gradient.shape[1], 0, len(rows), to_device(torch.from_numpy(rows), self._device), rows)
        counts_reads = len(rows) and not self._unbatched
        gradients = ValueGradients(self._values, [(last, ALL), *self._reads()] if counts_reads else ())
        if len(rows):
            gradients.add(last, ALL, gradient.to(self._dtype))
            self._backward(gradients)
        return [gradients.of(*given) for given in self._given]

    def _backward(self, gradients: ValueGradients) -> None:
        """gradients: of the final values."""
        kept: dict[Hashable, tuple[Operation, list[tuple[Tensor, ...]]]] = {}
        while self._tape:
            step, batch = self._tape.pop()
            operation, count = step.operation, step.length
            d_outputs = [gradients.of(width, start, count) for width, start in step.outputs]
            found = operation.backward(batch, d_outputs)
            for read, gradient in zip(step.inputs, found.inputs, strict=True):
                gradients.add(read, operation.columns, gradient)
            if found.kept and self._unbatched and not operation.only_gathers:
                operation.accumulate([found.kept])
            elif found.kept:
                kept.setdefault(operation.signature(), (operation, []))[1].append(found.kept)
        for operation, rows in kept.values():
            operation.accumulate(rows)

    def _reads(self) -> list[tuple[Read, slice]]:
        """What the operations on the tape read, and the columns of it."""
        return [(read, step.operation.columns) for step, _ in self._tape for read in step.inputs]

    def _reserve(self, width: int, rows: int) -> None:
        held = self._values.get(width)
        if held is not None and len(held) >= rows:
            return
        grown = torch.empty(
            rows if held is None else max(rows, 2 * len(held)), width, device=self._device, dtype=self._dtype
        )
        if held is not None:
            grown[: len(held)] = held
        self._values[width] = grown


def _gather(values: Tensor, read: Read, count: int, columns: slice) -> Tensor:
    """[count, columns], or [count, arguments * columns] for a pack of several arguments."""
    if columns != ALL:
        values = values[:, columns]
    if read.on_device is None:
        gathered = values[read.start : read.start + read.length]
    else:
        gathered = values.index_select(0, read.on_device)
    return gathered if read.length == count else gathered.reshape(count, -1)


class Computation:
    """Values, identified by numbers and computed in batches."""

    def __init__(self, device: torch.device, dtype: torch.dtype, unbatched: bool, gradients: bool):
        """unbatched: run single operations, and accumulate the parameters' gradients after each.

        gradients: keep what `backward` needs.
        """
        self._device = device
        self._runner = StepRunner(device, dtype, unbatched, gradients)
        self._row: Integers = np.empty(0, np.int64)  # [values] the row of each value
        self._used: dict[int, int] = {}  # number of rows in use, by width

    def run(self, steps: Sequence[Step]) -> None:
        """Run the batches of `schedule`, in that order."""
        self._runner.forward(steps, self._used)

    def backward(self, values: Sequence[Value], gradient: Tensor | None = None) -> list[Tensor]:
        """Backpropagate from computed values, and add to the parameters' `.grad`.

        gradient: [values, width], of the loss with respect to these values; None if the values are losses, of
        width 1, to be summed. Can be called once, because it frees what the forward pass has saved. Returns
        the gradients with respect to the tensors that were given. Raises ValueError.
        """
        if gradient is None:
            gradient = torch.ones(len(values), 1, device=self._device)
        return self._runner.backward(self._row[np.asarray(values, np.int64)], gradient)

    def rows(self, values: Sequence[Value], width: int) -> Tensor:
        """[values, width] A copy of computed values, all of the same width."""
        return self._runner.rows(width, self._row[np.asarray(values, np.int64)])

    def _give(self, first: Value, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]"""
        count, width = rows.shape
        start = self._used.get(width, 0)
        self._used[width] = start + count
        self._make_room(first + count)
        self._row[first : first + count] = np.arange(start, start + count)
        self._runner.give(start, rows)

    def _make_room(self, values: int) -> None:
        """For at least this number of values in total."""
        self._row = np.concatenate([self._row, np.empty(max(0, values - len(self._row)), np.int64)])


class StaticComputation(Computation):
    """Nothing is recorded.

    The caller passes the applications of each template, and labels each with a level above the levels of all
    its dependencies. Applications of one template and level are one batch for each operation of the template.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32, gradients: bool = True):
        super().__init__(device, dtype, unbatched=False, gradients=gradients)

    def add_values(self, first: Value, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]"""
        self._give(first, rows)

    def schedule(self, calls: Sequence[Applications]) -> list[Step]:
        """The batches of all applications.

        Their `first` numbers their values, their `group` is their level.
        """
        calls = [call for call in calls if len(call.first)]
        self._make_room(
            max((int(call.first.max()) + len(call.template.results) for call in calls), default=0)
        )
        level = np.concatenate([np.empty(0, np.int64), *(call.group for call in calls)])
        sizes = [len(call.group) for call in calls]
        place, start = np.repeat(np.arange(len(calls)), sizes), np.cumsum([0, *sizes])
        layout = Layout(self._row, self._used)
        for which in batches(level, place):
            number = int(place[which[0]])
            for node in calls[number].template.nodes:
                layout.add([BatchPart(calls[number], node, which - start[number])])
        return layout.steps(self._device)
