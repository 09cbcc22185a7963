"""Record the computation of single examples, and run it for all of them in batches."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.batches import Batches, KindBatches, at_once
from parser.batching.operations.computation import Computation
from parser.batching.operations.depth_and_agenda import SCHEDULES
from parser.batching.operations.layout import Step, lay_out
from parser.batching.operations.operation import Operation
from parser.batching.operations.pending import Applications, Kinds, Pending
from parser.batching.operations.row_order import in_order_of_readers
from parser.batching.operations.template import Index, Template, Value, Writer

NONE = "none"
GRAPH_METHODS = (NONE, *SCHEDULES)


class Graph(Computation, Writer):
    """A lazily evaluated graph. Values are identified by numbers.

    Operations are recorded by `apply` or by the methods of `Writer`. `forward` computes everything that is
    pending; recording may continue afterwards. `values` gives tensors that autograd differentiates. Faster is
    `backward` after `values` under `torch.no_grad()`, which adds to the parameters' `.grad` by itself.
    """

    def __init__(
        self,
        method: str,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        gradients: bool = True,
    ):
        """method: `none` for no batching; `depth` or `agenda`, see `schedule`. Raises ValueError for others.

        gradients: keep what `backward` needs.
        """
        if method not in GRAPH_METHODS:
            raise ValueError(f"no batching method {method!r}; the methods are {', '.join(GRAPH_METHODS)}")
        super().__init__(device, dtype, unbatched=method == NONE, gradients=gradients)
        self._method = method
        self._kinds = Kinds()
        self._templates: dict[Hashable, Template] = {}  # of single operations
        self._widths = array("q")  # of each value
        self._scheduled = 0  # the number of the first value that has not been scheduled
        self._recorded: dict[Template, _Recorded] = {}

    def apply(
        self, template: Template, values: Sequence[Value], indices: Sequence[Index] = ()
    ) -> list[Value]:
        """Record one application of a template, and return its results.

        Raises ValueError for other values, or another number of indices, than the template takes.
        """
        template.check_counts(len(values), len(indices))
        widths = self._widths
        template.check_widths([widths[value] for value in values])
        recorded, first = self._recorded_of(template), len(widths)
        recorded.first.append(first)
        recorded.arguments.extend(values)
        recorded.indices.extend(indices)
        widths.extend(template.computed_widths)
        return [first + place for place in template.result_places]

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        widths = tuple(map(self.width, values))
        key = operation.signature(), widths
        if key not in self._templates:
            self._templates[key] = Template.of(operation, widths)
        return self.apply(self._templates[key], values, () if index is None else (index,))

    def width(self, value: Value) -> int:
        return self._widths[value]

    def each(
        self,
        template: Template,
        values: Sequence[Sequence[Value]] | Integers,
        indices: Sequence[Sequence[Index]] | Integers = (),
    ) -> tuple[range, ...]:
        """As `Writer.each`, in one piece. values, indices: [arguments or indices, applications]

        Raises ValueError.
        """
        template.check_counts(len(values), len(indices))
        if not template.arguments + template.indices:
            raise ValueError("a template without arguments and indices must be applied one by one")
        count = len(values[0] if len(values) else indices[0])
        arguments, integers = _in_rows(values, count), _in_rows(indices, count)
        self._check_widths(template, arguments)
        recorded, first, step = self._recorded_of(template), len(self._widths), len(template.computed_widths)
        stop = first + count * step
        recorded.first.extend(range(first, stop, step))
        recorded.arguments.frombytes(arguments.tobytes())
        recorded.indices.frombytes(integers.tobytes())
        self._widths.extend(template.computed_widths * count)
        return tuple(range(first + place, stop, step) for place in template.result_places)

    def add_values(self, rows: Tensor) -> range:
        """Add values that were computed outside the graph. rows: [values, width]. Raises ValueError."""
        first = len(self._widths)
        self._give(first, rows)
        count, width = rows.shape
        self._widths.extend([width] * count)
        if not self._recorded:
            self._scheduled = len(self._widths)
        return range(first, first + count)

    def forward(self) -> None:
        """Compute all pending operations."""
        self.run(self.schedule())

    def schedule(self) -> list[Step]:
        """The batches of all pending operations. Pass them to `run` before recording anything else.

        Raises ValueError for indices out of range.
        """
        applications = [each.applications() for each in self._recorded.values() if each.first]
        start, self._scheduled, self._recorded = self._scheduled, len(self._widths), {}
        if not applications:
            return []
        self._make_room(self._scheduled)
        return lay_out(self._batches(applications, start), self._row, self._used, self._device)

    def values(self, values: Sequence[Value]) -> Tensor:
        """[values, width] A copy of values of equal width, after computing all pending operations.

        [0, 0] if there are no values. Autograd differentiates it, see `rows`. Raises ValueError for values of
        different widths.
        """
        if self._recorded:
            self.forward()
        widths = set(map(self.width, values)) or {0}
        if len(widths) > 1:
            raise ValueError(f"values of different widths, {sorted(widths)}, cannot be rows of one tensor")
        return self.rows(values, widths.pop())

    def backward(self, values: Sequence[Value] | Integers, gradient: Tensor | None = None) -> list[Tensor]:
        """See `Computation.backward`. Computes all pending operations first. Raises ValueError."""
        if self._recorded:
            self.forward()
        what, width = ("a loss", 1) if gradient is None else ("a value with this gradient", gradient.shape[1])
        for value in values:
            if self.width(value) != width:
                raise ValueError(f"{what} must be of width {width}, not {self.width(value)}")
        return super().backward(values, gradient)

    def _batches(self, applications: Sequence[Applications], start: int) -> list[KindBatches]:
        """start: the number of the first value that has not been scheduled before."""
        if self._method == NONE:
            pending = Pending(applications, self._kinds, start)
            return Batches.single(pending).by_kind(pending)
        found = at_once(applications, self._kinds, start)
        if found is None:
            pending = Pending(applications, self._kinds, start)
            found = in_order_of_readers(SCHEDULES[self._method](pending), pending).by_kind(pending)
        return found

    def _check_widths(self, template: Template, arguments: Integers) -> None:
        """arguments: [applications, arguments]. Raises ValueError."""
        given = np.frombuffer(self._widths, np.int64)[arguments]
        wrong = np.flatnonzero((given != template.argument_widths).any(1))
        if len(wrong):
            template.check_widths(given[wrong[0]].tolist())

    def _recorded_of(self, template: Template) -> _Recorded:
        found = self._recorded.get(template)
        if found is None:
            self._check_types(template)
            found = self._recorded[template] = _Recorded(template)
        return found

    def _check_types(self, template: Template) -> None:
        """Raises ValueError for parameters of another data type than the graph's."""
        for operation, _ in template.wiring.origins:
            for parameter in operation.parameters:
                if parameter.dtype != self._dtype and parameter.is_floating_point():
                    raise ValueError(
                        f"{type(operation).__name__} has parameters of {parameter.dtype}, but the graph is "
                        f"of {self._dtype}: create it with dtype={parameter.dtype}, or convert the parameters"
                    )


class _Recorded:
    """The recorded applications of one template."""

    __slots__ = ("arguments", "first", "indices", "template")

    def __init__(self, template: Template):
        self.template = template
        self.first, self.arguments, self.indices = array("q"), array("q"), array("q")

    def applications(self) -> Applications:
        """Raises ValueError for indices out of range."""
        count, template = len(self.first), self.template
        indices = _columns(self.indices, count, template.indices)
        wrong = (indices < 0) | (indices >= template.index_bounds)
        if wrong.any():
            application, place = np.argwhere(wrong)[0]
            bound = template.index_bounds[place] - 1
            raise ValueError(
                f"index {indices[application, place]} is out of range: it must be from 0 to {bound}"
            )
        arguments = _columns(self.arguments, count, template.arguments)
        return Applications(template, np.array(self.first), arguments, indices)


def _in_rows(columns: Sequence[Sequence[int]] | Integers, count: int) -> Integers:
    """[count, columns] columns: [columns, count]; there may be none."""
    return np.array(columns, np.int64).reshape(len(columns), count).T


def _columns(flat: array[int], rows: int, columns: int) -> Integers:
    """[rows, columns]"""
    return (
        np.frombuffer(flat, np.int64).reshape(rows, columns) if flat else np.empty((rows, columns), np.int64)
    )
