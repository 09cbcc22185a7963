"""The words in which a computation is written, be it recorded at once or traced into a template."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from parser.batching.operations import elementwise
from parser.batching.operations.operation import Operation
from parser.batching.operations.parameterised import Linear, Lookup

Value = int
"""A vector that is not computed yet, by its number."""
Index = int
"""An integer that differs from example to example: a row of a table, or a label."""


class Writer(ABC):
    """Takes down operations on values."""

    @abstractmethod
    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        """The values that an operation gives."""

    @abstractmethod
    def width(self, value: Value) -> int:
        """The number of a value's elements."""

    def lookup(self, table: Tensor, row: Index, sparse: bool = False) -> Value:
        """sparse: whether the table's gradient shall be, with only the rows that are read."""
        return self.operate(Lookup(table, sparse), (), row)[0]

    def linear(self, weight: Tensor, *values: Value, bias: Tensor | None = None) -> Value:
        """weight @ [values, one after the other] + bias; weight: [out, in], bias: [out]."""
        _check(len(values) * self._common(*values), weight.shape[1], "what the weight takes")
        return self.operate(Linear(weight, bias), values)[0]

    def add(self, left: Value, right: Value) -> Value:
        return self.operate(elementwise.Add(self._common(left, right)), (left, right))[0]

    def multiply(self, left: Value, right: Value) -> Value:
        return self.operate(elementwise.Multiply(self._common(left, right)), (left, right))[0]

    def tanh(self, value: Value) -> Value:
        return self.operate(elementwise.Tanh(self.width(value)), (value,))[0]

    def sigmoid(self, value: Value) -> Value:
        return self.operate(elementwise.Sigmoid(self.width(value)), (value,))[0]

    def relu(self, value: Value) -> Value:
        return self.operate(elementwise.Relu(self.width(value)), (value,))[0]

    def dropout(self, value: Value, probability: float, training: bool) -> Value:
        return self.operate(elementwise.Dropout(self.width(value), probability, training), (value,))[0]

    def log_softmax(self, value: Value) -> Value:
        return self.operate(elementwise.LogSoftmax(self.width(value)), (value,))[0]

    def pick(self, value: Value, element: Index) -> Value:
        return self.operate(elementwise.Pick(self.width(value)), (value,), element)[0]

    def cross_entropy(self, scores: Value, label: Index) -> Value:
        return self.operate(elementwise.CrossEntropy(self.width(scores)), (scores,), label)[0]

    def concatenate(self, values: Sequence[Value]) -> Value:
        if not values:
            raise ValueError("an operation on no values")
        return self.operate(elementwise.Concatenate(tuple(map(self.width, values))), values)[0]

    def slice(self, value: Value, start: int, stop: int) -> Value:
        if not 0 <= start < stop <= self.width(value):
            raise ValueError(f"a slice from {start} to {stop} of a value of width {self.width(value)}")
        return self.operate(elementwise.Slice(self.width(value), start, stop), (value,))[0]

    def sum(self, values: Sequence[Value]) -> Value:
        return self.operate(elementwise.Sum(self._common(*values), len(values)), values)[0]

    def _common(self, *values: Value) -> int:
        """The width of them all. Raises ValueError."""
        if not values:
            raise ValueError("an operation on no values")
        width = self.width(values[0])
        for other in values[1:]:
            _check(self.width(other), width, "the other's width")
        return width


def _check(width: int, expected: int, what: str) -> None:
    if width != expected:
        raise ValueError(f"a width of {width}, but {what} is {expected}")
