"""Computations whose structure is known in advance (Suarez & Zhu 2017, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.computation import NOT_RUN, Computation
from parser.batching.operations.layout import Step, in_order_of_readers, lay_out
from parser.batching.operations.pending import Applications, Kinds, Pending
from parser.batching.operations.schedules import Batches
from parser.batching.operations.template import Template

UNKNOWN = -1
"""Replaces the number of a value that does not exist."""


@dataclass(frozen=True, eq=False)
class StaticApplications:
    """The applications of one template. The caller numbers their results and labels them with levels.

    >>> add = Template.trace(lambda writer, left, right: left + right, widths=(2, 2))
    >>> StaticApplications(  # of the values 0, 1 and 2: value 3 = 0 + 1, and value 4 = 3 + 2
    ...     add,
    ...     first_result=np.array([3, 4]),
    ...     arguments=np.array([[0, 1], [3, 2]]),
    ...     indices=np.zeros((2, 0), int),
    ...     level=np.array([0, 1]),
    ... ).level.tolist()
    [0, 1]
    """

    template: Template
    first_result: Integers
    """[applications] The number of the first result."""
    arguments: Integers
    """[applications, arguments] The numbers of the argument values."""
    indices: Integers
    """[applications, indices] The indices given to each application."""
    level: Integers
    """[applications] The level, higher than those of all applications whose results this one uses."""


class StaticComputation(Computation):
    """Records nothing: each operation of a template is one batch for all applications of equal level.

    >>> double = Template.trace(lambda writer, value: value + value, widths=(2,))
    >>> computation = StaticComputation("cpu")
    >>> computation.add_values(first=0, rows=torch.ones(2, 2))
    >>> none, level = np.zeros((2, 0), int), np.zeros(2, int)
    >>> calls = StaticApplications(double, np.array([2, 3]), np.array([[0], [1]]), none, level)
    >>> computation.run(computation.schedule([calls]))
    >>> computation.rows([2, 3], width=2).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    def __init__(
        self, device: torch.device | str, dtype: torch.dtype = torch.float32, gradients: bool = True
    ):
        super().__init__(device, dtype, unbatched=False, gradients=gradients)
        self._kinds = Kinds()
        self._number: Integers = np.empty(0, np.int64)  # of the value that the caller knows by this number
        self._width: Integers = np.empty(0, np.int64)  # of each value

    def add_values(self, first: int, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]. Raises ValueError."""
        start = len(self._width)
        self._give(start, rows)
        count, width = rows.shape
        self._width = np.concatenate([self._width, np.full(count, width)])
        self._renumber(np.arange(first, first + count), np.arange(start, start + count))

    def schedule(self, calls: Sequence[StaticApplications]) -> list[Step]:
        """Return the batches of all applications. Raises ValueError for values that do not fit a template."""
        self._check()
        calls = [call for call in calls if len(call.first_result)]
        if not calls:
            return []
        start = len(self._width)
        firsts = []  # [applications] The number of the first value that each computes
        for call in calls:
            widths, count = np.array(call.template.computed_widths), len(call.first_result)
            first = len(self._width) + len(widths) * np.arange(count)
            self._width = np.concatenate([self._width, np.tile(widths, count)])
            for number, offset in enumerate(call.template.result_offsets):
                self._renumber(call.first_result + number, first + offset)
            firsts.append(first)
        applications = [
            Applications(call.template, first, self._arguments(call), call.indices)
            for call, first in zip(calls, firsts, strict=True)
        ]
        self._make_room(len(self._width))
        pending = Pending(applications, self._kinds, start)
        batches = in_order_of_readers(Batches.by(_batch_keys(calls)), pending)
        self._fault = NOT_RUN
        return lay_out(batches.by_kind(pending), self._row, self._used, self._device)

    def rows(self, values: Sequence[int] | Integers, width: int) -> Tensor:
        return super().rows(self._of_width(values, width), width)

    def backward(self, values: Sequence[int] | Integers, gradient: Tensor | None = None) -> list[Tensor]:
        gradient = self._gradient(gradient, len(values))
        return super().backward(self._of_width(values, gradient.shape[1]), gradient)

    def _arguments(self, call: StaticApplications) -> Integers:
        """[applications, arguments] The internal numbers of the arguments.

        Raises ValueError for values or indices that the template does not take.
        """
        template = call.template
        template.check_counts(call.arguments.shape[1], call.indices.shape[1])
        template.check_indices(call.indices)
        arguments = self._internal(call.arguments)
        widths = self._width[arguments]
        for wrong in np.flatnonzero((widths != template.argument_widths).any(1))[:1]:
            template.check(tuple(widths[wrong].tolist()), template.indices)
        return arguments

    def _of_width(self, values: Sequence[int] | Integers, width: int) -> Integers:
        numbers = self._internal(np.asarray(values, np.int64))
        for wrong in np.flatnonzero(self._width[numbers] != width)[:1]:
            raise ValueError(f"value {values[wrong]} is of width {self._width[numbers[wrong]]}, not {width}")
        return numbers

    def _internal(self, given: Integers) -> Integers:
        """Return the internal numbers of the caller's values. Raises ValueError for unknown values."""
        known = (given >= 0) & (given < len(self._number))
        numbers = (
            self._number[np.where(known, given, 0)] if len(self._number) else np.full_like(given, UNKNOWN)
        )
        for wrong in given[~known | (numbers == UNKNOWN)][:1]:
            raise ValueError(f"there is no value {wrong}: it is neither given nor the result of a call")
        return numbers

    def _renumber(self, given: Integers, numbers: Integers) -> None:
        missing = max(0, int(given.max(initial=-1)) + 1 - len(self._number))
        self._number = np.concatenate([self._number, np.full(missing, UNKNOWN)])
        self._number[given] = numbers


def _batch_keys(calls: Sequence[StaticApplications]) -> Integers:
    """[operations] Keys that sort by level, then by template, then by position in the template."""
    nodes = [len(call.template.wiring.origin) for call in calls]
    ends = np.cumsum(nodes)
    level = np.concatenate([call.level.repeat(count) for call, count in zip(calls, nodes, strict=True)])
    operation = np.concatenate(
        [
            np.tile(np.arange(end - count, end), len(call.level))
            for call, count, end in zip(calls, nodes, ends, strict=True)
        ]
    )
    return (level - level.min()) * ends[-1] + operation
