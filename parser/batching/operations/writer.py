"""Recording: a `Writer` records operations on `Value`s, in a graph or while a template is traced."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NoReturn, overload

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
from parser.batching.operations.operation import HOW_TO, Operation

if TYPE_CHECKING:
    from parser.batching.operations.template import Template

Index = int
"""An integer that differs between examples: a row of a table, or a label."""


class Value:
    """A vector that is possibly not computed yet.

    Operators record operations: `a + b`, `a - b` and `a * b` of equal widths, element by element, where one
    operand may be a number, as in `1 - a`; `-a` and `a / number`; `weight @ a`, with a matrix [out, width];
    `a @ b`, an inner product; `a[start:stop]`, and `a[element]`, of width 1. They raise TypeError for any
    other operand, and ValueError for other widths.

    >>> graph = Graph("agenda", "cpu")
    >>> a, b = graph.add_values(torch.tensor([[1.0, 2], [3, 4]]))
    >>> graph.values([(1 - a) * b, b / 2 - a]).tolist()
    [[0.0, -4.0], [0.5, 0.0]]
    """

    __slots__ = ("number", "writer")
    __array_ufunc__ = None  # so that NumPy leaves `array + value` to the value
    __iter__ = None  # elements are taken one by one only if asked for

    def __init__(self, writer: Writer, number: int):
        """writer: the writer to which it belongs; number: its number in the writer."""
        self.writer, self.number = writer, number

    @property
    def width(self) -> int:
        """The number of elements."""
        return self.writer.width(self)

    def __add__(self, other: Value | float) -> Value:
        if type(other) is Value:
            return self.writer.add(self, other)
        return self.writer.scale(self, 1, number(other))

    def __radd__(self, other: float) -> Value:
        return self.writer.scale(self, 1, number(other))

    def __sub__(self, other: Value | float) -> Value:
        if type(other) is Value:
            return self.writer.subtract(self, other)
        return self.writer.scale(self, 1, -number(other))

    def __rsub__(self, other: float) -> Value:
        return self.writer.scale(self, -1, number(other))

    def __mul__(self, other: Value | float) -> Value:
        if type(other) is Value:
            return self.writer.multiply(self, other)
        return self.writer.scale(self, number(other))

    def __rmul__(self, other: float) -> Value:
        return self.writer.scale(self, number(other))

    def __truediv__(self, other: float) -> Value:
        if type(other) is Value:
            raise _no_division()
        return self.writer.scale(self, 1 / number(other))

    def __rtruediv__(self, other: object) -> NoReturn:
        raise _no_division()

    def __neg__(self) -> Value:
        return self.writer.scale(self, -1)

    def __matmul__(self, other: Value) -> Value:
        return self.writer.inner_product(self, other)

    def __rmatmul__(self, weight: Tensor) -> Value:
        return self.writer.linear(weight, self)

    def __getitem__(self, element: int | slice) -> Value:
        if not isinstance(element, slice):
            if isinstance(element, Integral) and -self.width <= element < 0:
                element += self.width
            return self.writer.pick(self, element)
        start, stop, step = element.indices(self.width)
        if step != 1:
            raise ValueError(f"a slice of a value must have the step 1, not {step}")
        return self.writer.slice(self, start, stop)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and (self.writer, self.number) == (other.writer, other.number)

    def __hash__(self) -> int:
        return hash((self.writer, self.number))

    def __bool__(self) -> NoReturn:
        raise TypeError("a value may not be computed yet: `graph.values([value])` gives its numbers")

    def __repr__(self) -> str:
        return f"<value {self.number}, of width {self.width}>"


class Values(Sequence[Value]):
    """Several values of a writer. The object of a value is created only when it is accessed.

    >>> rows = Graph("agenda", "cpu").add_values(torch.zeros(3, 2))
    >>> len(rows), rows[1:][0]
    (3, <value 1, of width 2>)
    """

    __slots__ = ("numbers", "writer")

    def __init__(self, writer: Writer, numbers: Sequence[int] | Integers):
        self.writer, self.numbers = writer, numbers

    @overload
    def __getitem__(self, position: int) -> Value: ...
    @overload
    def __getitem__(self, position: slice) -> Values: ...
    def __getitem__(self, position: int | slice) -> Value | Values:
        kind: Any = Values if isinstance(position, slice) else Value
        return kind(self.writer, self.numbers[position])

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Value]:
        writer = self.writer
        return iter([Value(writer, number) for number in self.numbers])


class Writer(ABC):
    """Records operations on values.

    >>> def score(writer: Writer, value: Value) -> Value:  # with a graph, or of a template
    ...     return writer.sum([writer.tanh(value), value])
    >>> graph = Graph("agenda", "cpu")
    >>> score(graph, graph.add_values(torch.zeros(1, 2))[0])
    <value 2, of width 2>
    """

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
        results = [self.apply(template, row[: len(values)], row[len(values) :]) for row in rows]
        return tuple(zip(*results, strict=True)) if results else ((),) * len(template.results)

    def chain(
        self, first: Template, following: Template, values: Sequence[Value]
    ) -> tuple[Sequence[Value], ...]:
        """Record a recurrence: each application takes a value and the results of the previous application.

        The first application is of `first`, which takes only a value. Returns the same as `each`. Raises
        ValueError if there are no values.
        """
        if not values:
            raise ValueError("a chain needs at least one value")
        results = [self.apply(first, values[:1])]
        for value in values[1:]:
            results.append(self.apply(following, (value, *results[-1])))
        return tuple(zip(*results, strict=True))

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


def numbers_of(values: Sequence[Value], writer: Writer) -> Sequence[int] | Integers:
    """Return the numbers of values.

    Raises TypeError for objects that are not values, and ValueError for values of another writer.
    """
    if type(values) is Values:  # fast, because every operation calls this
        if values.writer is writer:
            return values.numbers
        raise _of_another()
    try:
        numbers = [value.number for value in values if value.writer is writer]
    except (AttributeError, TypeError):
        given: Any = values
        if isinstance(given, Value):
            raise TypeError("several values are wanted: for a single one, write [value]") from None
        each_given = given if isinstance(given, Iterable) else [given]
        wrong = next(each for each in each_given if not isinstance(each, Value))
        raise not_a_value(wrong) from None
    if len(numbers) < len(values):
        raise _of_another()
    return numbers


def number(given: object) -> float:
    """Return a number as a float. Raises TypeError for other objects."""
    if isinstance(given, Real):
        return float(given)
    raise not_a_value(given, " or a number")


def _no_division() -> TypeError:
    return TypeError(
        "division by a value is no operation of a graph: divide by a number, divide outside the graph, or "
        "record a `Module` that divides, see docs/batching.md"
    )


def not_a_value(given: object, alternative: str = "") -> TypeError:
    return TypeError(
        f"a value{alternative} is wanted, not {type(given).__name__}: `graph.add_values(rows)` makes values "
        "of the rows of a tensor [values, width], and weights and biases go into "
        "`graph.linear(weight, value, bias=bias)`"
    )


def _of_another() -> ValueError:
    return ValueError(
        "a value of another graph or template: a graph gets it by `add_values(rows)`, where `rows` is what "
        "`values([value])` of the other one gives, and a template as an argument"
    )
