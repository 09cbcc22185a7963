"""Values that are computed in batches: forward in order, and backward in reverse order.

Common to computations whose structure is recorded and those whose structure is known in advance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.layout import Read, Step
from parser.batching.operations.operation import ALL, Operation, OperationBatch
from parser.batching.operations.template import Value
from parser.batching.operations.value_gradients import ValueGradients, batches_that_lead_to


class Computation:
    """Values, identified by numbers, and a tape of the batches that computed them."""

    def __init__(self, device: torch.device, dtype: torch.dtype, unbatched: bool, gradients: bool):
        """unbatched: batches are single operations, and the parameters' gradients are added after each.

        gradients: keep what `backward` needs.
        """
        self._device, self._dtype = device, dtype
        self._unbatched, self._gradients = unbatched, gradients
        self._row: Integers = np.empty(0, np.int64)  # [values] the row of each value
        self._used: dict[int, int] = {}  # the number of rows in use, by width
        self._blocks: dict[int, Tensor] = {}  # the rows, by width: [capacity, width]
        self._given: list[tuple[int, int, int]] = []  # external values: width, first row, number of rows
        self._tape: list[tuple[Step, OperationBatch]] = []
        self._failed = False

    @torch.no_grad()
    def run(self, steps: Sequence[Step]) -> None:
        """Run the batches of `schedule`, in that order."""
        self._reserve()
        blocks, self._failed = self._blocks, True
        for step in steps:
            operation, count = step.operation, step.length
            inputs = [_gather(blocks[read.width], read, count) for read in step.inputs]
            outputs = [blocks[width][start : start + count] for width, start in step.outputs]
            batch = OperationBatch(inputs, outputs, step.indices)
            operation.forward(batch)
            if self._gradients:
                self._tape.append((step, batch))
        self._failed = False

    def rows(self, values: Sequence[Value] | Integers, width: int) -> Tensor:
        """[values, width] A copy of computed values, all of the same width. Raises ValueError."""
        self._check()
        if not len(values):
            return torch.empty(0, width, device=self._device, dtype=self._dtype)
        rows = torch.from_numpy(self._row[np.asarray(values, np.int64)])
        return self._blocks[width].index_select(0, to_device(rows, self._device))

    @torch.no_grad()
    def backward(self, values: Sequence[Value] | Integers, gradient: Tensor | None = None) -> list[Tensor]:
        """Backpropagate from computed values, and add to the parameters' `.grad`.

        gradient: [values, width], of the loss with respect to these values; None if the values are losses, of
        width 1, to be summed. Can be called once, because it frees what the forward pass has saved. Returns
        the gradients with respect to the tensors that were given. A batch of which no row leads to these
        values is left out, as by autograd. Raises ValueError.
        """
        if not self._gradients:
            raise ValueError("no gradients: created with gradients=False, or backward was called before")
        self._check()
        self._gradients = False
        if gradient is None:
            gradient = torch.ones(len(values), 1, device=self._device)
        rows = self._row[np.asarray(values, np.int64)]
        on_device = to_device(torch.from_numpy(rows), self._device)
        last = Read(gradient.shape[1], ALL, 0, len(rows), rows, on_device)
        tape, self._tape = batches_that_lead_to(last, self._tape, self._used), []
        reads = [last, *(read for step, _ in tape for read in step.inputs)]
        blocks = {width: self._blocks[width][:used] for width, used in self._used.items()}
        gradients = ValueGradients(blocks, reads, add_all=self._unbatched)
        if len(rows):
            gradients.add(0, gradient.to(self._dtype))
        self._backward(tape, gradients)
        return [gradients.of(*given) for given in self._given]

    def _backward(self, tape: Iterable[tuple[Step, OperationBatch]], gradients: ValueGradients) -> None:
        """tape: the last batch first; gradients: of the final values."""
        kept: dict[Hashable, tuple[Operation, list[tuple[Tensor, ...]]]] = {}
        number = 1  # of the next read
        for step, batch in tape:
            operation, count = step.operation, step.length
            d_outputs = [gradients.of(width, start, count) for width, start in step.outputs]
            own = range(number, number := number + len(step.inputs))
            if not self._unbatched:
                batch.input_gradients = [_in_rows(gradients.place(one), count) for one in own]
            found = operation.backward(batch, d_outputs)
            for one, gradient, place in zip(own, found.inputs, batch.input_gradients, strict=True):
                if gradient is None or gradient is not place:
                    gradients.add(one, gradient)
            if found.kept and self._unbatched and not operation.only_gathers:
                operation.accumulate([found.kept])
            elif found.kept:
                kept.setdefault(operation.signature(), (operation, []))[1].append(found.kept)
        for operation, rows in kept.values():
            operation.accumulate(rows[::-1])  # in the order of the schedule, in which rows lie

    @torch.no_grad()
    def _give(self, first: Value, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]"""
        count, width = rows.shape
        start = self._used.get(width, 0)
        self._used[width] = start + count
        self._make_room(first + count)
        self._row[first : first + count] = np.arange(start, start + count)
        self._reserve()
        self._blocks[width][start : start + count] = rows
        self._given.append((width, start, count))

    def _check(self) -> None:
        if self._failed:
            raise ValueError("values cannot be read: an error has stopped a batch before they were computed")

    def _make_room(self, values: int) -> None:
        """For at least this number of values in total."""
        if values > len(self._row):
            self._row = np.concatenate([self._row, np.empty(values, np.int64)])

    def _reserve(self) -> None:
        """Have blocks for all rows in use."""
        for width, rows in self._used.items():
            held = self._blocks.get(width)
            if held is not None and len(held) >= rows:
                continue
            capacity = rows if held is None else max(rows, 2 * len(held))
            grown = torch.empty(capacity, width, device=self._device, dtype=self._dtype)
            if held is not None:
                grown[: len(held)] = held
            self._blocks[width] = grown


def _in_rows(place: Tensor | None, count: int) -> Tensor | None:
    """[count, width], or [count, arguments * width] for a pack of several arguments."""
    return place if place is None or len(place) == count else place.view(count, -1)


def _gather(values: Tensor, read: Read, count: int) -> Tensor:
    """[count, columns], or [count, arguments * columns] for a pack of several arguments."""
    if read.columns != ALL:
        values = values[:, read.columns]
    if read.on_device is None:
        gathered = values[read.start : read.start + read.length]
    else:
        gathered = values.index_select(0, read.on_device)
    return gathered if read.length == count else gathered.reshape(count, -1)
