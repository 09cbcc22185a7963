"""Record the computation of single examples, and run it for all of them in batches."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.computation import NOT_RUN, Computation
from parser.batching.operations.layout import Step, in_order_of_readers, lay_out
from parser.batching.operations.operation import Operation, check_operation
from parser.batching.operations.pending import Applications, Kinds, Pending
from parser.batching.operations.schedules import SCHEDULES, Batches, at_once
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Index, Value, Values, Writer, numbers_of

NONE = "none"
GRAPH_METHODS = (NONE, *SCHEDULES)


class Graph(Computation, Writer):
    """A lazily evaluated graph. Arrays that are passed as values contain the values' numbers.

    Operations are recorded by `apply` or by the methods of `Writer`. `forward` computes everything that is
    pending; recording can continue afterwards. `values` returns tensors that autograd differentiates. It is
    faster to call `values` under `torch.no_grad()`, then `backward`, which adds to the parameters' `.grad`.

    >>> weight = torch.ones(2, 3, requires_grad=True)
    >>> graph = Graph("agenda", "cpu")
    >>> first, second = graph.add_values(torch.eye(3)[:2])
    >>> sums = [weight @ first, weight @ (first + second)]
    >>> len(batches := graph.schedule())  # the sum, and both products at once
    2
    >>> graph.run(batches)
    >>> rows = graph.values(sums)
    >>> rows.tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    >>> rows.sum().backward()
    >>> weight.grad.tolist()
    [[2.0, 1.0, 0.0], [2.0, 1.0, 0.0]]
    """

    def __init__(
        self,
        method: str,
        device: torch.device | str,
        dtype: torch.dtype = torch.float32,
        gradients: bool = True,
    ):
        """method: `none` for no batching, or a schedule, `depth` or `agenda`. Raises ValueError for others.

        gradients: whether to keep what `backward` needs.
        """
        if method not in GRAPH_METHODS:
            raise ValueError(f"no batching method {method!r}; the methods are {', '.join(GRAPH_METHODS)}")
        super().__init__(device, dtype, unbatched=method == NONE, gradients=gradients)
        self._method = method
        self._kinds = Kinds()
        self._templates: dict[Hashable, Template] = {}  # of single operations
        self._widths = array("q")  # of each value
        self._scheduled = 0  # the number of the first value that has not been scheduled
        self._recorded: dict[Template, array[int]] = {}  # see `_recorded_of`

    def apply(self, template: Template, values: Sequence[Value], indices: Sequence[Index] = ()) -> Values:
        """Record one application of a template, and return its results.

        Raises ValueError, and records nothing, if the template does not take these values or indices.
        """
        numbers, widths = numbers_of(values, self), self._widths
        given = tuple([widths[number] for number in numbers])
        if given != template.taken or len(indices) != template.indices:
            template.check(given, len(indices))
        if template.indices:
            for index, bound in zip(indices, template.index_bounds, strict=True):
                if not 0 <= index < bound:
                    template.check_indices(np.array([indices]))
        first = self._record(template, numbers, indices)
        return Values(self, [first + offset for offset in template.result_offsets])

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        numbers, widths = numbers_of(values, self), self._widths
        given = tuple([widths[number] for number in numbers])
        if not isinstance(operation, Operation):
            check_operation(operation)
        key = operation.signature(), given
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template.of(operation, given)
        if operation.has_index != (index is not None):
            template.check(given, int(index is not None))
        if index is None:
            first = self._record(template, numbers, ())
        else:
            if not 0 <= index < template.index_bounds[0]:
                template.check_indices(np.array([[index]]))
            first = self._record(template, numbers, (index,))
        return [Value(self, first + offset) for offset in template.result_offsets]

    def _record(self, template: Template, numbers: Sequence[int] | Integers, indices: Sequence[Index]) -> int:
        """Record one application to these values. Returns the number of the first computed value."""
        recorded, first = self._recorded.get(template), len(self._widths)
        if recorded is None:
            recorded = self._recorded_of(template)
        checked = array("q", indices) if template.indices else indices  # first, because it checks the types
        recorded.append(first)
        recorded.extend(numbers)
        recorded.extend(checked)
        self._widths.extend(template.computed_widths)
        return first

    def width_of(self, number: int) -> int:
        return self._widths[number]

    def each(
        self,
        template: Template,
        values: Sequence[Sequence[Value] | Integers] | Integers,
        indices: Sequence[Sequence[Index]] | Integers = (),
    ) -> tuple[Values, ...]:
        """Like `Writer.each`, but record all applications at once.

        values: [arguments, applications]; indices: [indices, applications]. Raises ValueError, and records
        nothing, if the template does not take these values or indices.
        """
        template.check_counts(len(values), len(indices))
        if not template.arguments + template.indices:
            raise ValueError("a template without arguments and indices must be applied one by one")
        count, first = len(values[0] if len(values) else indices[0]), len(self._widths)
        step, start = len(template.computed_widths), 1 + template.arguments
        stop = first + count * step
        rows = np.empty((count, start + template.indices), np.int64)  # as in `_recorded_of`
        rows[:, 0] = np.arange(first, stop, step)
        columns = [self._numbers(column) for column in values]
        _fill(rows[:, 1:start], columns)
        _fill(rows[:, start:], indices)
        template.check_indices(rows[:, start:])
        given = np.frombuffer(self._widths, np.int64)[rows[:, 1:start]]  # [applications, arguments]
        for wrong in np.flatnonzero((given != template.argument_widths).any(1))[:1]:
            template.check(tuple(given[wrong].tolist()), template.indices)
        self._recorded_of(template).frombytes(rows.tobytes())
        self._widths.extend(template.computed_widths * count)
        return tuple(Values(self, range(first + offset, stop, step)) for offset in template.result_offsets)

    def add_values(self, rows: Tensor) -> Values:
        """Add and return values computed outside the graph. rows: [values, width]. Raises ValueError."""
        first = len(self._widths)
        self._give(first, rows)
        count, width = rows.shape
        self._widths.extend([width] * count)
        if not self._recorded:
            self._scheduled = len(self._widths)
        return Values(self, range(first, first + count))

    def forward(self) -> None:
        """Compute all pending operations."""
        self.run(self.schedule())

    def schedule(self) -> list[Step]:
        """Return the batches of all pending operations. Pass them to `run` before recording anything else.

        Raises ValueError if earlier batches have not run.
        """
        self._check()
        applications = []
        for template, recorded in self._recorded.items():
            if recorded:
                columns = 1 + template.arguments + template.indices
                rows = np.frombuffer(recorded, np.int64).reshape(-1, columns)
                first, arguments, indices = np.split(rows, [1, 1 + template.arguments], 1)
                applications.append(
                    Applications(template, first[:, 0].copy(), arguments.copy(), indices.copy())
                )
        start, self._scheduled, self._recorded = self._scheduled, len(self._widths), {}
        if not applications:
            return []
        self._make_room(self._scheduled)
        self._fault = NOT_RUN
        batches = None
        if self._method != NONE:
            batches = at_once(applications, self._kinds, start)
        if batches is None:
            pending = Pending(applications, self._kinds, start)
            if self._method == NONE:
                schedule = Batches.single(pending)
            else:
                schedule = in_order_of_readers(SCHEDULES[self._method](pending), pending)
            batches = schedule.by_kind(pending)
        return lay_out(batches, self._row, self._used, self._device)

    def values(self, values: Sequence[Value] | Integers) -> Tensor:
        """[values, width] Compute all pending operations, and return a copy of values of equal width.

        The shape is [0, 0] if there are no values. Autograd differentiates the result, see `rows`. Raises
        ValueError for values of different widths.
        """
        numbers = self._numbers(values)
        widths = set(self._widths_of(numbers)) or {0}
        if len(widths) > 1:
            raise ValueError(f"values of different widths, {sorted(widths)}, cannot be rows of one tensor")
        if self._recorded:
            self.forward()
        return self.rows(np.asarray(numbers, np.int64), widths.pop())

    def backward(self, values: Sequence[Value] | Integers, gradient: Tensor | None = None) -> list[Tensor]:
        """Compute all pending operations, then run `Computation.backward`. Raises ValueError."""
        what = "a loss" if gradient is None else "a value with this gradient"
        numbers = self._numbers(values)
        gradient = self._gradient(gradient, len(numbers))
        width = gradient.shape[1]
        for other in set(self._widths_of(numbers)) - {width}:
            raise ValueError(f"{what} must be of width {width}, not {other}")
        if self._recorded:
            self.forward()
        return super().backward(np.asarray(numbers, np.int64), gradient)

    def _numbers(self, values: Sequence[Value] | Integers) -> Sequence[int] | Integers:
        if not isinstance(values, np.ndarray):
            return numbers_of(values, self)
        for wrong in values[(values < 0) | (values >= len(self._widths))][:1]:
            raise ValueError(f"there is no value {wrong}: numbers are those of `Values.numbers`")
        return values

    def _widths_of(self, numbers: Sequence[int] | Integers) -> tuple[int, ...]:
        widths = self._widths
        return tuple([widths[number] for number in numbers])

    def _recorded_of(self, template: Template) -> array[int]:
        """[applications, 1 + arguments + indices] The first computed value, arguments and indices of each.

        Raises ValueError if the data type of a parameter differs from that of the graph.
        """
        recorded = self._recorded.get(template)
        if recorded is not None:
            return recorded
        for operation, _ in template.wiring.origins:
            for parameter in operation.parameters:
                if parameter.dtype != self._dtype and parameter.is_floating_point():
                    raise ValueError(
                        f"{operation.name} has parameters of {parameter.dtype}, but the graph is "
                        f"of {self._dtype}: create it with dtype={parameter.dtype}, or convert the parameters"
                    )
        self._recorded[template] = array("q")
        return self._recorded[template]


def _fill(rows: Integers, columns: Sequence[Sequence[int] | Integers] | Integers) -> None:
    """Copy columns [columns, applications] to rows [applications, columns]. Raises ValueError."""
    for position, column in enumerate(columns):
        numbers = np.asarray(column)
        if len(numbers) != len(rows):
            raise ValueError(f"columns of different lengths: {len(rows)} and {len(numbers)}")
        if numbers.size and numbers.dtype.kind not in "iu":
            raise ValueError(f"numbers of values and indices must be integers, not {numbers.dtype}")
        rows[:, position] = numbers
