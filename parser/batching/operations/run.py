"""Run batches forward, and backward in reverse order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from parser.batching.operations.layout import Integers, Read, Step
from parser.batching.operations.operation import ALL, Batch, Operation


class Runner:
    """The values of a graph, and how they came about."""

    def __init__(self, device: torch.device, dtype: torch.dtype, alone: bool, gradients: bool):
        """alone: whether parameters' gradients are added batch by batch, too; gradients: if there will be."""
        self._device, self._dtype = device, dtype
        self._alone, self._gradients = alone, gradients
        self._values: dict[int, Tensor] = {}  # of each width: [rows at least, width]
        self._tape: list[tuple[Step, Batch]] = []

    @torch.no_grad()
    def forward(self, steps: Sequence[Step], used: Mapping[int, int]) -> None:
        """used: the rows of each width when all of this has run."""
        for width, rows in used.items():
            self._reserve(width, rows)
        values = self._values
        for step in steps:
            operation, count = step.operation, step.length
            inputs = [_gather(values[read.width], read, count, operation.columns) for read in step.inputs]
            outputs = [values[width][start : start + count] for width, start in step.outputs]
            batch = Batch(inputs, outputs, step.indices)
            operation.forward(batch)
            if self._gradients:
                self._tape.append((step, batch))

    def rows(self, width: int, rows: Integers) -> Tensor:
        """[len(rows), width] A copy of some values."""
        if not len(rows):
            return torch.empty(0, width, device=self._device, dtype=self._dtype)
        return self._values[width].index_select(0, torch.from_numpy(rows).to(self._device))

    @torch.no_grad()
    def backward(self, rows: Integers) -> None:
        """Add to parameters' gradients those of the sum of some values of width 1; rows: where they lie."""
        if not self._gradients:
            raise ValueError("there are no gradients: the graph was made without, or has gone back already")
        self._gradients = False
        if not len(rows):
            return
        gradients = {width: torch.zeros_like(values) for width, values in self._values.items()}
        places = torch.from_numpy(rows).to(self._device)
        gradients[1].index_add_(0, places, gradients[1].new_ones(len(rows), 1))
        kept: dict[Hashable, tuple[Operation, list[tuple[Tensor, ...]]]] = {}
        while self._tape:
            step, batch = self._tape.pop()
            operation, count = step.operation, step.length
            of_outputs = [gradients[width][start : start + count] for width, start in step.outputs]
            flowing = operation.backward(batch, of_outputs)
            for read, gradient in zip(step.inputs, flowing.inputs, strict=False):
                if gradient is not None:
                    _scatter(gradients[read.width], read, operation.columns, gradient)
            if flowing.kept and self._alone and not operation.only_gathers:
                operation.accumulate([flowing.kept])
            elif flowing.kept:
                kept.setdefault(operation.signature(), (operation, []))[1].append(flowing.kept)
        for operation, batches in kept.values():
            operation.accumulate(batches)

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
    """[count, columns] or, of a pack of several arguments, [count, arguments * columns]"""
    if columns != ALL:
        values = values[:, columns]
    if read.rows is None:
        gathered = values[read.start : read.start + read.length]
    else:
        gathered = values.index_select(0, read.rows)
    return gathered if read.length == count else gathered.reshape(count, -1)


def _scatter(gradients: Tensor, read: Read, columns: slice, gradient: Tensor) -> None:
    """Add a batch's gradients to those of the rows that it read."""
    if columns != ALL:
        gradients = gradients[:, columns]
    if len(gradient) != read.length:
        gradient = gradient.reshape(read.length, -1)
    if read.rows is None:
        gradients[read.start : read.start + read.length] += gradient
    else:
        if gradient.untyped_storage().data_ptr() == gradients.untyped_storage().data_ptr():
            gradient = gradient.clone()  # torch adds no block to itself, though the rows are others
        gradients.index_add_(0, read.rows, gradient)
