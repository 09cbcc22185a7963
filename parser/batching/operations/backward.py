"""The backward pass: the batches of a tape in reverse order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.operations.calls import run_backward, trained_parameters
from parser.batching.operations.layout import Read, Step
from parser.batching.operations.operation import HOW_TO, Operation, OperationBatch
from parser.batching.operations.parameter_gradients import ParameterGradients
from parser.batching.operations.value_gradients import ValueGradients

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
    number = 1  # of the next read
    for step, batch, _ in led:
        operation, count = step.operation, step.length
        d_outputs = [values.of(width, start, count) for width, start in step.outputs]
        own = range(number, number := number + len(step.inputs))
        if not unbatched:
            batch.input_gradients = [_in_rows(values.place(one), count) for one in own]
        found = run_backward(operation, batch, d_outputs)
        for one, d_input, place in zip(own, found.inputs, batch.input_gradients, strict=True):
            if d_input is None or d_input is not place:
                values.add(one, d_input)
        batch.input_gradients = (None,) * len(own)  # they would keep all gradients alive
        if not found.kept:
            continue
        if operation.keeps_rows and (operation.only_gathers or not unbatched):
            kept.setdefault(operation.signature(), (operation, []))[1].append(found.kept)
        else:
            operation.accumulate([found.kept], parameters)
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
    return tuple([0 if own.is_inference() else own._version for own in operation.parameters])


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

    found: list[TapeEntry] = []
    if last.length:
        need(last)
    for entry in reversed(tape):
        step = entry.step
        if any(needed[width][start : start + step.length].any() for width, start in step.outputs):
            found.append(entry)
            for read in step.inputs:
                need(read)
    return found


def _in_rows(place: Tensor | None, count: int) -> Tensor | None:
    """Return a view [count, width], or [count, arguments * width] for a pack of several arguments."""
    return place if place is None or len(place) == count else place.view(count, -1)
