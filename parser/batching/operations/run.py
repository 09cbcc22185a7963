"""Run batches forward in order, and backward in reverse order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.layout import Read, Step
from parser.batching.operations.operation import ALL, Operation, OperationBatch
from parser.batching.operations.value_gradients import ValueGradients
from parser.batching.transfer import to_device


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
        for operation, batches in kept.values():
            operation.accumulate(batches)

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
