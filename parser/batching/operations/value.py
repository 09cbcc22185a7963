"""Values: the inputs and outputs of operations while they are recorded, in a graph or in a template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NoReturn, overload

from torch import Tensor

from parser.batching.levels import Integers

if TYPE_CHECKING:
    from parser.batching.operations.template import Writer


class Value:
    """A vector that is possibly not computed yet.

    Operators record operations: `a + b`, `a - b` and `a * b` of equal widths, element by element, where one
    operand may be a number, as in `1 - a`; `-a` and `a / number`; `weight @ a`, with a matrix [out, width];
    `a @ b`, an inner product; `a[start:stop]`, and `a[element]`, of width 1. They raise TypeError for any
    other operand, and ValueError for other widths.
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

    def __getitem__(self, place: int | slice) -> Value:
        if not isinstance(place, slice):
            if isinstance(place, Integral) and -self.width <= place < 0:
                place += self.width
            return self.writer.pick(self, place)
        start, stop, step = place.indices(self.width)
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
    """Several values of a writer. The object of a value is created only when it is accessed."""

    __slots__ = ("numbers", "writer")

    def __init__(self, writer: Writer, numbers: Sequence[int] | Integers):
        self.writer, self.numbers = writer, numbers

    @overload
    def __getitem__(self, place: int) -> Value: ...
    @overload
    def __getitem__(self, place: slice) -> Values: ...
    def __getitem__(self, place: int | slice) -> Value | Values:
        kind: Any = Values if isinstance(place, slice) else Value
        return kind(self.writer, self.numbers[place])

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Value]:
        writer = self.writer
        return iter([Value(writer, number) for number in self.numbers])


def numbers_of(values: Sequence[Value], writer: Writer) -> Sequence[int] | Integers:
    """Return the numbers of values.

    Raises TypeError for objects that are not values, and ValueError for values of another writer.
    """
    if type(values) is Values:  # fast, because every operation calls this
        if values.writer is writer:
            return values.numbers
        raise _of_another()
    try:
        found = [value.number for value in values if value.writer is writer]
    except (AttributeError, TypeError):
        raise _not_values(values) from None
    if len(found) < len(values):
        raise _of_another()
    return found


def _not_values(found: Any) -> TypeError:
    if isinstance(found, Value):
        return TypeError("several values are wanted: for a single one, write [value]")
    wrong = (
        (each for each in found if not isinstance(each, Value)) if isinstance(found, Iterable) else [found]
    )
    return not_a_value(next(iter(wrong)))


def number(found: object) -> float:
    """Return a number as a float. Raises TypeError for other objects."""
    if isinstance(found, Real):
        return float(found)
    raise not_a_value(found, " or a number")


def _no_division() -> TypeError:
    return TypeError(
        "division by a value is no operation of a graph: divide by a number, divide outside the graph, or "
        "record a `Module` that divides, see docs/batching.md"
    )


def not_a_value(found: object, alternative: str = "") -> TypeError:
    return TypeError(
        f"a value{alternative} is wanted, not {type(found).__name__}: `graph.add_values(rows)` makes values "
        "of the rows of a tensor [values, width], and weights and biases go into "
        "`graph.linear(weight, value, bias=bias)`"
    )


def _of_another() -> ValueError:
    return ValueError(
        "a value of another graph or template: a graph gets it by `add_values(rows)`, where `rows` is what "
        "`values([value])` of the other one gives, and a template as an argument"
    )
