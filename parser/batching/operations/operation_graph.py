"""Record the computation of single examples, and run it for all of them in batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers, batches
from parser.batching.operations.computation import Computation
from parser.batching.operations.depth_and_agenda import SCHEDULES
from parser.batching.operations.layout import (
    Applications,
    BatchPart,
    Layout,
    Step,
    concatenate_integers,
    unbatched_steps,
)
from parser.batching.operations.operation import Operation
from parser.batching.operations.patterns import PatternKey, PatternNode, Patterns, PatternValue
from parser.batching.operations.template import Index, Template, Value, Writer

NONE = "none"
GRAPH_METHODS = (NONE, *SCHEDULES)


class Graph(Computation, Writer):
    """A lazily evaluated graph. Values are identified by numbers.

    Operations are recorded by `apply` or by the methods of `Writer`. `forward` computes everything that is
    pending; recording may continue afterwards. `backward` adds to the parameters' `.grad`.
    """

    def __init__(
        self,
        method: str,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        patterns: Patterns | None = None,
        gradients: bool = True,
    ):
        """method: `none` for no batching; `depth` or `agenda`, see `schedule`. Raises ValueError for others.

        patterns: a cache that is shared with earlier graphs; gradients: keep what `backward` needs.
        """
        if method not in GRAPH_METHODS:
            raise ValueError(f"no batching method {method!r}; the methods are {', '.join(GRAPH_METHODS)}")
        super().__init__(device, dtype, unbatched=method == NONE, gradients=gradients)
        self._method = method
        self._patterns = patterns or Patterns()
        self._pattern: list[PatternValue] = []  # of each value
        self._recorded: dict[Template, _Recorded] = {}
        self._scheduled: list[Applications] = []

    def apply(self, template: Template, values: Sequence[Value], indices: Sequence[Index] = ()) -> range:
        """Record one application of a template, and return its results.

        Raises ValueError for values or indices that the template does not take.
        """
        if len(indices) != template.indices:
            raise ValueError(f"{len(indices)} indices given, but the template takes {template.indices}")
        recorded, kind = self._recorded_of(template), self._pattern
        key: PatternKey = (template, *[kind[value] for value in values])
        pattern = self._patterns.found.get(key) or self._patterns.add(key)
        first = len(kind)
        kind += pattern.results
        recorded.first.append(first)
        recorded.pattern.append(pattern.number)
        recorded.arguments += values
        recorded.indices += indices
        return range(first, first + len(pattern.results))

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        template = self._patterns.template(operation, tuple(map(self.width, values)))
        return list(self.apply(template, values, () if index is None else (index,)))

    def width(self, value: Value) -> int:
        return self._patterns.widths[self._pattern[value]]

    def each(
        self, template: Template, values: Sequence[Sequence[Value]], indices: Sequence[Sequence[Index]] = ()
    ) -> tuple[range, ...]:
        """Record many applications of a template, and return a `range` of values for each of its results.

        values: for each argument, the values of all applications; indices: likewise. Raises ValueError.
        """
        if len(indices) != template.indices:
            raise ValueError(f"{len(indices)} index columns given, but the template takes {template.indices}")
        recorded, kind, found = self._recorded_of(template), self._pattern, self._patterns.found
        number = len((*values, *indices)[0])
        start, numbers = len(kind), recorded.pattern
        columns = [map(kind.__getitem__, column) for column in values]
        for key in zip(repeat(template, number), *columns, strict=True):
            pattern = found.get(key) or self._patterns.add(key)
            numbers.append(pattern.number)
            kind += pattern.results
        step = len(template.results)
        recorded.first += range(start, start + number * step, step)
        recorded.arguments += chain.from_iterable(zip(*values, strict=True))
        recorded.indices += chain.from_iterable(zip(*indices, strict=True))
        return tuple(range(start + place, start + number * step, step) for place in range(step))

    def chain(self, first: Template, following: Template, values: Sequence[Value]) -> tuple[range, ...]:
        """Record a recurrence: each application takes a value and the results of the previous application.

        The first application is of `first`, which takes a value only. Returns as `each`. Raises ValueError if
        there are no values.
        """
        if not values:
            raise ValueError("a chain needs at least one value")
        start_results = self.apply(first, values[:1])
        kind, found = self._pattern, self._patterns.found
        recorded = self._recorded_of(following)
        start, step = start_results.start, len(start_results)
        numbers, previous = recorded.pattern, tuple(kind[start:])
        for value in values[1:]:
            key: PatternKey = (following, kind[value], *previous)
            pattern = found.get(key) or self._patterns.add(key)
            numbers.append(pattern.number)
            previous = pattern.results
            kind += previous
        stop = start + len(values) * step
        results = tuple(range(start + place, stop, step) for place in range(step))
        recorded.first += range(start + step, stop, step)
        recorded.arguments += chain.from_iterable(
            zip(values[1:], *(result[:-1] for result in results), strict=True)
        )
        return results

    def add_values(self, rows: Tensor) -> range:
        """Add values that were computed outside the graph. rows: [values, width]"""
        first, (count, width) = len(self._pattern), rows.shape
        self._pattern += [self._patterns.computed(width)] * count
        self._give(first, rows)
        return range(first, first + count)

    def forward(self) -> None:
        """Compute all pending operations."""
        self.run(self.schedule())

    def schedule(self) -> list[Step]:
        """The batches of all pending operations. Pass them to `run` before recording anything else."""
        pending = [recorded.applications() for recorded in self._recorded.values() if recorded.first]
        self._recorded = {}
        self._make_room(len(self._pattern))
        if self._method == NONE:
            steps = unbatched_steps(pending, self._row, self._used, self._device)
        else:
            steps = self._batches(pending)
        self._scheduled = pending
        return steps

    def values(self, values: Sequence[Value]) -> Tensor:
        """[values, width] A copy of values of equal width, after computing all pending operations.

        [0, 0] if there are no values. Raises ValueError for values of different widths.
        """
        if self._recorded:
            self.forward()
        widths = set(map(self.width, values)) or {0}
        if len(widths) > 1:
            raise ValueError(f"values of different widths, {sorted(widths)}, cannot be rows of one tensor")
        return self.rows(values, widths.pop())

    def backward(self, values: Sequence[Value], gradient: Tensor | None = None) -> list[Tensor]:
        """See `Computation.backward`. Computes all pending operations first. Raises ValueError."""
        if self._recorded:
            self.forward()
        what, width = ("a loss", 1) if gradient is None else ("a value with this gradient", gradient.shape[1])
        for value in values:
            if self.width(value) != width:
                raise ValueError(f"{what} must be of width {width}, not {self.width(value)}")
        return super().backward(values, gradient)

    def _recorded_of(self, template: Template) -> _Recorded:
        if template not in self._recorded:
            self._mark_as_computed()
            self._recorded[template] = _Recorded(template)
        return self._recorded[template]

    def _mark_as_computed(self) -> None:
        """Treat scheduled values as computed: only their width is relevant from now on."""
        for applications in self._scheduled:
            for place, result in enumerate(applications.template.results):
                computed = self._patterns.computed(applications.template.widths[result])
                for first in applications.first.tolist():
                    self._pattern[first + place] = computed
        self._scheduled = []

    def _batches(self, pending: Sequence[Applications]) -> list[Step]:
        members = _by_pattern(pending)
        every = self._patterns.all
        numbers = list(chain.from_iterable(every[pattern].nodes for pattern in sorted(members)))
        counts = {number: len(which) for number, (_, which) in members.items()}
        layout = Layout(self._row, self._used)
        for batch in SCHEDULES[self._method](self._patterns.nodes, numbers, counts):
            layout.add(_parts(batch, members))
        return layout.steps(self._device)


class _Recorded:
    """The recorded applications of one template."""

    __slots__ = ("arguments", "first", "indices", "pattern", "template")

    def __init__(self, template: Template):
        self.template = template
        self.first: list[int] = []
        self.pattern: list[int] = []
        self.arguments: list[int] = []
        self.indices: list[int] = []

    def applications(self) -> Applications:
        """Raises ValueError for an index that is out of range."""
        count, template = len(self.first), self.template
        indices = np.array(self.indices, np.int64).reshape(count, template.indices)
        for column, bound in template.bounds:
            lowest, highest = indices[:, column].min(), indices[:, column].max()
            if lowest < 0 or highest >= bound:
                wrong = lowest if lowest < 0 else highest
                raise ValueError(f"index {wrong} is out of range: it must be from 0 to {bound - 1}")
        return Applications(
            template,
            np.array(self.first, np.int64),
            np.array(self.arguments, np.int64).reshape(count, template.arguments),
            indices,
            np.array(self.pattern, np.int64),
        )


Members = dict[int, tuple[Applications, Integers]]
"""By pattern, the positions of its applications."""


def _by_pattern(pending: Sequence[Applications]) -> Members:
    return {
        int(applications.group[which[0]]): (applications, which)
        for applications in pending
        for which in batches(applications.group)
    }


def _parts(batch: Sequence[PatternNode], members: Members) -> list[BatchPart]:
    """One part for each node of a template that takes part in the batch."""
    together: dict[tuple[Applications, int], list[Integers]] = {}
    for node in batch:
        applications, which = members[node.pattern]
        together.setdefault((applications, node.place), []).append(which)
    return [
        BatchPart(applications, applications.template.nodes[place], concatenate_integers(which))
        for (applications, place), which in together.items()
    ]
