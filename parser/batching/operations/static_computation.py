"""Computations whose structure is known in advance (Suarez & Zhu 2017, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.batches import Batches
from parser.batching.operations.computation import Computation
from parser.batching.operations.layout import Step, lay_out
from parser.batching.operations.pending import Applications, Kinds, Pending
from parser.batching.operations.row_order import in_order_of_readers
from parser.batching.operations.template import Template, Value


@dataclass(frozen=True, eq=False)
class StaticApplications:
    """The applications of one template. The caller numbers their results and labels them with levels."""

    template: Template
    first_result: Integers
    """[applications] Its number."""
    arguments: Integers
    """[applications, arguments] The numbers of the argument values."""
    indices: Integers
    """[applications, indices]"""
    level: Integers
    """[applications] Above the levels of all applications whose results it uses."""


class StaticComputation(Computation):
    """Nothing is recorded: each operation of a template is a batch with those of equal level."""

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32, gradients: bool = True):
        super().__init__(device, dtype, unbatched=False, gradients=gradients)
        self._kinds = Kinds()
        self._number: Integers = np.empty(0, np.int64)  # of the value that the caller knows by this number
        self._values = 0

    def add_values(self, first: Value, rows: Tensor) -> None:
        """Add external values, numbered from `first`. rows: [values, width]. Raises ValueError."""
        self._renumber(np.arange(first, first + len(rows)), np.arange(self._values, self._values + len(rows)))
        self._give(self._values, rows)
        self._values += len(rows)

    def schedule(self, calls: Sequence[StaticApplications]) -> list[Step]:
        """The batches of all applications."""
        calls = [call for call in calls if len(call.first_result)]
        if not calls:
            return []
        start = self._values
        firsts = [self._number_results(call) for call in calls]
        applications = [
            Applications(call.template, first, self._number[call.arguments], call.indices)
            for call, first in zip(calls, firsts, strict=True)
        ]
        self._make_room(self._values)
        pending = Pending(applications, self._kinds, start)
        batches = in_order_of_readers(Batches.by(_batch_keys(calls)), pending)
        return lay_out(batches.by_kind(pending), self._row, self._used, self._device)

    def rows(self, values: Sequence[Value] | Integers, width: int) -> Tensor:
        return super().rows(self._number[np.asarray(values, np.int64)], width)

    def backward(self, values: Sequence[Value] | Integers, gradient: Tensor | None = None) -> list[Tensor]:
        return super().backward(self._number[np.asarray(values, np.int64)], gradient)

    def _number_results(self, call: StaticApplications) -> Integers:
        """[applications] The number of the first value that each computes."""
        step = len(call.template.computed_widths)
        first = self._values + step * np.arange(len(call.first_result))
        self._values += step * len(first)
        for number, place in enumerate(call.template.result_places):
            self._renumber(call.first_result + number, first + place)
        return first

    def _renumber(self, given: Integers, own: Integers) -> None:
        missing = max(0, int(given.max(initial=-1)) + 1 - len(self._number))
        self._number = np.concatenate([self._number, np.empty(missing, np.int64)])
        self._number[given] = own


def _batch_keys(calls: Sequence[StaticApplications]) -> Integers:
    """[operations] Ordered by level, then by template, then by the operation's place in it."""
    nodes = [len(call.template.wiring.origin) for call in calls]
    ends = np.cumsum(nodes)
    level = np.concatenate([call.level.repeat(count) for call, count in zip(calls, nodes, strict=True)])
    place = np.concatenate(
        [
            np.tile(np.arange(end - count, end), len(call.level))
            for call, count, end in zip(calls, nodes, ends, strict=True)
        ]
    )
    return (level - level.min()) * ends[-1] + place
