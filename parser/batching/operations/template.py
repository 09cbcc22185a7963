"""Templates: computations that are traced once and applied many times, each application a compact record.

A `Writer` records operations, either in a graph or while a template is traced. Templates can contain other
templates: a template for a sentence of five words consists of five applications of the template for a word.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from torch import Tensor

from parser.batching.levels import Integers
from parser.batching.operations.elementary_operations import (
    Add,
    Concatenate,
    CrossEntropy,
    Dropout,
    Linear,
    LogSoftmax,
    Lookup,
    MatrixProduct,
    Multiply,
    Pick,
    Relu,
    Scale,
    Sigmoid,
    Slice,
    Subtract,
    Sum,
    Tanh,
)
from parser.batching.operations.operation import HOW_TO, Operation, check_operation
from parser.batching.operations.value import Value, Values, numbers_of
from parser.batching.operations.wiring import TemplateNode, Wiring, nodes_of, wiring_of

Index = int
"""An integer that differs between examples: a row of a table, or a label."""


class Writer(ABC):
    """Records operations on values."""

    if not TYPE_CHECKING:  # type checkers would no longer find wrong names

        def __getattr__(self, name: str) -> NoReturn:
            what = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_"):
                what += (
                    f". If you want an operation {name!r}: `operate(Module(layer, widths), values)` records "
                    "any layer that treats rows one by one, such as `Module(nn.Softmax(1), (width,))`, and "
                    f"`operate` also records operations of your own; {HOW_TO}"
                )
            raise AttributeError(what, name=name, obj=self)

    @abstractmethod
    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> Sequence[Value]:
        """Record an operation, and return its outputs."""

    @abstractmethod
    def apply(
        self, template: Template, values: Sequence[Value], indices: Sequence[Index] = ()
    ) -> Sequence[Value]:
        """Record one application of a template, and return its results."""

    @abstractmethod
    def width_of(self, number: int) -> int:
        """Return the width of the value with this number."""

    def width(self, value: Value) -> int:
        """Return the number of elements of a value. Raises TypeError and ValueError, see `numbers_of`."""
        if isinstance(value, Value) and value.writer is self:
            return self.width_of(value.number)
        return self.width_of(*numbers_of((value,), self))

    def each(
        self, template: Template, values: Sequence[Sequence[Value]], indices: Sequence[Sequence[Index]] = ()
    ) -> tuple[Sequence[Value], ...]:
        """Record many applications of a template, and return the values of each of its results.

        values: for each argument, the values of all applications; indices: the same for each index.
        """
        columns = [*values, *indices]
        rows = zip(*columns, strict=True)
        found = [self.apply(template, row[: len(values)], row[len(values) :]) for row in rows]
        return tuple(zip(*found, strict=True)) if found else ((),) * len(template.results)

    def chain(
        self, first: Template, following: Template, values: Sequence[Value]
    ) -> tuple[Sequence[Value], ...]:
        """Record a recurrence: each application takes a value and the results of the previous application.

        The first application is of `first`, which takes only a value. Returns the same as `each`. Raises
        ValueError if there are no values.
        """
        if not values:
            raise ValueError("a chain needs at least one value")
        found = [self.apply(first, values[:1])]
        for value in values[1:]:
            found.append(self.apply(following, (value, *found[-1])))
        return tuple(zip(*found, strict=True))

    def lookup(self, table: Tensor, row: Index, sparse: bool = False) -> Value:
        """Read a row of the table. sparse: use a sparse gradient, which contains only rows that were read."""
        return self.operate(Lookup(table, sparse), (), row)[0]

    def linear(self, weight: Tensor, *values: Value, bias: Tensor | None = None) -> Value:
        """weight @ concatenate(values) + bias; weight: [out, in], bias: [out]. Values have equal widths."""
        product = Linear(weight, bias)
        _check(len(values) * self._common(*values), weight.shape[1], "the width that the weight takes")
        return self.operate(product, values)[0]

    def add(self, left: Value, right: Value) -> Value:
        return self.operate(Add(self._common(left, right)), (left, right))[0]

    def subtract(self, left: Value, right: Value) -> Value:
        return self.operate(Subtract(self._common(left, right)), (left, right))[0]

    def multiply(self, left: Value, right: Value) -> Value:
        """Element by element."""
        try:
            width = self._common(left, right)
        except ValueError as error:
            if 1 not in (self.width(left), self.width(right)):
                raise
            how = "`matrix_product(number, vector, inner=1)` multiplies a vector by a value of width 1"
            raise ValueError(f"{error}: {how}") from None
        return self.operate(Multiply(width), (left, right))[0]

    def scale(self, value: Value, factor: float, shift: float = 0.0) -> Value:
        """factor * value + shift. Both numbers are the same for all examples of a batch."""
        return self.operate(Scale(self.width(value), float(factor), float(shift)), (value,))[0]

    def matrix_product(self, left: Value, right: Value, inner: int) -> Value:
        """left @ right, for values that hold matrices row by row: left [rows, inner], right [inner, columns].

        `inner` is the width of the vectors for an inner product, and 1 for a scalar times a vector. Raises
        ValueError if `inner` does not divide the widths.
        """
        widths = self.width(left), self.width(right)
        if inner < 1 or any(width % inner for width in widths):
            raise ValueError(f"widths of {widths[0]} and {widths[1]}, but both must be multiples of {inner}")
        rows, columns = (width // inner for width in widths)
        return self.operate(MatrixProduct(rows, inner, columns), (left, right))[0]

    def inner_product(self, left: Value, right: Value) -> Value:
        """Return the sum of the products of the elements, a value of width 1."""
        return self.matrix_product(left, right, self._common(left, right))

    def tanh(self, value: Value) -> Value:
        return self.operate(Tanh(self.width(value)), (value,))[0]

    def sigmoid(self, value: Value) -> Value:
        return self.operate(Sigmoid(self.width(value)), (value,))[0]

    def relu(self, value: Value) -> Value:
        return self.operate(Relu(self.width(value)), (value,))[0]

    def dropout(self, value: Value, probability: float, training: bool) -> Value:
        return self.operate(Dropout(self.width(value), probability, training), (value,))[0]

    def log_softmax(self, value: Value) -> Value:
        return self.operate(LogSoftmax(self.width(value)), (value,))[0]

    def pick(self, value: Value, element: Index) -> Value:
        return self.operate(Pick(self.width(value)), (value,), element)[0]

    def cross_entropy(self, scores: Value, label: Index) -> Value:
        return self.operate(CrossEntropy(self.width(scores)), (scores,), label)[0]

    def concatenate(self, values: Sequence[Value]) -> Value:
        if not values:
            raise ValueError("an operation needs at least one value")
        return self.operate(Concatenate(tuple(map(self.width, values))), values)[0]

    def slice(self, value: Value, start: int, stop: int) -> Value:
        if not 0 <= start < stop <= self.width(value):
            raise ValueError(f"slice {start}:{stop} is out of range for a value of width {self.width(value)}")
        return self.operate(Slice(self.width(value), start, stop), (value,))[0]

    def sum(self, values: Sequence[Value]) -> Value:
        return self.operate(Sum(self._common(*values), len(values)), values)[0]

    def _common(self, *values: Value) -> int:
        """Return the common width of the values. Raises ValueError if they differ."""
        if not values:
            raise ValueError("an operation needs at least one value")
        width = self.width(values[0])
        for other in values[1:]:
            _check(self.width(other), width, "the width of the other value")
        return width


def _check(width: int, expected: int, what: str) -> None:
    if width != expected:
        raise ValueError(f"a width of {width}, but {what} is {expected}")


@dataclass(frozen=True, eq=False)
class Template:
    """A traced computation.

    widths: the widths of all values; arguments, indices: the numbers of values and integers that an
    application takes.
    """

    widths: tuple[int, ...]
    arguments: int
    indices: int
    wiring: Wiring
    results: tuple[int, ...]
    """The values that an application returns; all are outputs of operations."""

    def __post_init__(self) -> None:
        """Raises ValueError for values without elements."""
        if 0 in self.widths:
            raise ValueError(f"a value has at least one element, but the widths are {list(self.widths)}")

    @cached_property
    def nodes(self) -> tuple[TemplateNode, ...]:
        """The operations of the template."""
        return nodes_of(self.wiring, self.arguments)

    @cached_property
    def taken(self) -> tuple[int, ...]:
        """The widths of the arguments."""
        return self.widths[: self.arguments]

    @cached_property
    def computed_widths(self) -> array[int]:
        """The widths of the values that the operations compute."""
        return array("q", self.widths[self.arguments :])

    @cached_property
    def result_places(self) -> tuple[int, ...]:
        """The positions of the results, counted from the first value that is computed."""
        return tuple(result - self.arguments for result in self.results)

    @cached_property
    def argument_widths(self) -> Integers:
        """[arguments] The widths of the arguments."""
        return np.array(self.taken, np.int64)

    @cached_property
    def index_bounds(self) -> tuple[int, ...]:
        """The upper bound (exclusive) of each index."""
        return tuple(bound for bound, _ in self._index_limits)

    @cached_property
    def _index_limits(self) -> list[tuple[int, str]]:
        """The upper bound (exclusive) of each index, and the name of the operation that sets it."""
        found = [(sys.maxsize, "the template")] * self.indices
        for node in self.nodes:
            bound = node.operation.index_bound
            if node.index is not None and bound is not None:
                found[node.index] = min(found[node.index], (bound, node.operation.name))
        return found

    def check_indices(self, indices: Integers) -> None:
        """Check indices [applications, indices]. Raises ValueError for indices out of range."""
        wrong = np.argwhere((indices < 0) | (indices >= np.array(self.index_bounds, np.int64)))
        for application, place in wrong[:1].tolist():
            bound, name = self._index_limits[place]
            raise ValueError(
                f"index {indices[application, place]} of {name} is out of range: it must be from 0 to "
                f"{bound - 1}. Nothing was recorded by this call; all before it can be used"
            )

    def check(self, widths: tuple[int, ...], indices: int) -> None:
        """Check what is given to an application. Raises ValueError if the template takes something else.

        widths: the widths of the given values; indices: the number of given indices.
        """
        if widths == self.taken and indices == self.indices:
            return
        self.check_counts(len(widths), indices)
        raise ValueError(
            f"values of widths {list(widths)} given, but the template takes widths {list(self.taken)}"
        )

    def check_counts(self, values: int, indices: int) -> None:
        """Raises ValueError if an application takes a different number of values or indices."""
        for given, taken, what in ((values, self.arguments, "values"), (indices, self.indices, "indices")):
            if given != taken:
                raise ValueError(f"{given} {what} given, but the template takes {taken}")

    @classmethod
    def of(cls, operation: Operation, widths: Sequence[int] = ()) -> Template:
        """Make a template of a single operation. widths: the widths of its arguments. Raises TypeError."""
        check_operation(operation)
        count = len(widths)
        index = 0 if operation.has_index else None
        node = TemplateNode(operation, tuple(range(count)), index, count)
        results = tuple(range(count, count + len(operation.outputs)))
        all_widths = *widths, *operation.outputs
        return cls(all_widths, count, int(operation.has_index), wiring_of([node], all_widths), results)

    @classmethod
    def trace(
        cls, write: Callable[..., Value | Sequence[Value]], widths: Sequence[int], indices: int = 0
    ) -> Template:
        """Make a template of the operations that `write(writer, *values, *indices)` records.

        widths: the widths of the values; indices: the number of indices. Raises ValueError.
        """
        tracer = _Tracer(widths)
        found = write(tracer, *Values(tracer, range(len(widths))), *map(_IndexPlace, range(indices)))
        results = tuple(numbers_of((found,) if isinstance(found, Value) else found, tracer))
        if not results:
            raise ValueError("a template must return a result")
        if any(result < len(widths) for result in results):
            raise ValueError("a template must return results of its operations, not its own arguments")
        if len(set(results)) < len(results):
            raise ValueError("a template must not return the same value twice")
        wiring = wiring_of(tracer.nodes, tracer.widths)
        return cls(tuple(tracer.widths), len(widths), indices, wiring, results)


class _IndexPlace:
    """Stands for an index while a template is traced: its position among the template's indices."""

    def __init__(self, place: int):
        self.place = place

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(
            "an index has no number while a template is traced, once for all indices: where the computation "
            "depends on it, make a template for each"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _refuse
    __hash__ = object.__hash__


class _Tracer(Writer):
    def __init__(self, widths: Sequence[int]):
        self.widths = list(widths)
        self.nodes: list[TemplateNode] = []

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> Sequence[Value]:
        check_operation(operation)
        name = operation.name
        if operation.has_index != (index is not None):
            raise ValueError(f"{name} takes {'an' if operation.has_index else 'no'} index")
        if index is not None and not isinstance(index, _IndexPlace):
            raise ValueError(
                f"{name}: in a template an index must be one of the template's own, not {index}; `a[3:4]` is "
                "a fixed element of a value"
            )
        place = None if index is None else index.place
        first = len(self.widths)
        self.nodes.append(TemplateNode(operation, tuple(numbers_of(values, self)), place, first))
        self.widths += operation.outputs
        return Values(self, range(first, len(self.widths)))

    def apply(
        self, template: Template, values: Sequence[Value], indices: Sequence[Index] = ()
    ) -> Sequence[Value]:
        """Copy the template's operations into the traced template."""
        template.check(tuple(map(self.width, values)), len(indices))
        own = [*values]
        for node in template.nodes:
            index = None if node.index is None else indices[node.index]
            own += self.operate(node.operation, [own[value] for value in node.arguments], index)
        return [own[result] for result in template.results]

    def width_of(self, number: int) -> int:
        return self.widths[number]
