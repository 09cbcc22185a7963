"""The interface for recording operations, either in a graph or while a template is traced."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from parser.batching.operations import elementwise
from parser.batching.operations.operation import Operation
from parser.batching.operations.parameterised import Linear, Lookup

Value = int
"""The number of a vector that may not be computed yet."""
Index = int
"""An integer that differs between examples: a row of a table, or a label."""


class Writer(ABC):
    """Records operations on values."""

    @abstractmethod
    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        """Record an operation, and return its outputs."""

    @abstractmethod
    def width(self, value: Value) -> int:
        """The number of a value's elements."""

    def lookup(self, table: Tensor, row: Index, sparse: bool = False) -> Value:
        """A row of the table. sparse: use a sparse gradient, with only the rows that were read."""
        return self.operate(Lookup(table, sparse), (), row)[0]

    def linear(self, weight: Tensor, *values: Value, bias: Tensor | None = None) -> Value:
        """weight @ concatenate(values) + bias; weight: [out, in], bias: [out]. Values have equal widths."""
        _check(len(values) * self._common(*values), weight.shape[1], "the width that the weight takes")
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
            raise ValueError("an operation needs at least one value")
        return self.operate(elementwise.Concatenate(tuple(map(self.width, values))), values)[0]

    def slice(self, value: Value, start: int, stop: int) -> Value:
        if not 0 <= start < stop <= self.width(value):
            raise ValueError(f"slice {start}:{stop} is out of range for a value of width {self.width(value)}")
        return self.operate(elementwise.Slice(self.width(value), start, stop), (value,))[0]

    def sum(self, values: Sequence[Value]) -> Value:
        return self.operate(elementwise.Sum(self._common(*values), len(values)), values)[0]

    def _common(self, *values: Value) -> int:
        """The common width of the values. Raises ValueError if they differ."""
        if not values:
            raise ValueError("an operation needs at least one value")
        width = self.width(values[0])
        for other in values[1:]:
            _check(self.width(other), width, "the width of the other value")
        return width


def _check(width: int, expected: int, what: str) -> None:
    if width != expected:
        raise ValueError(f"a width of {width}, but {what} is {expected}")
