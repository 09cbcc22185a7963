"""Templates: computations that are traced once and applied many times, each application a compact record.

A `Writer` records operations, either in a graph or while a template is traced. A `CellOperation` is a whole
template fused into one operation, the coarse grain: its operations run one after the other on the rows of a
batch. The scheduler sees a single node, and the values between the operations need no rows in the graph's
memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

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
    Sigmoid,
    Slice,
    Sum,
    Tanh,
)
from parser.batching.operations.operation import ALL, Operation, OperationBatch, OperationGradients

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
        return self.operate(Add(self._common(left, right)), (left, right))[0]

    def multiply(self, left: Value, right: Value) -> Value:
        """Element by element."""
        return self.operate(Multiply(self._common(left, right)), (left, right))[0]

    def matrix_product(self, left: Value, right: Value, inner: int) -> Value:
        """left @ right, of values that hold matrices row by row: left [rows, inner], right [inner, columns].

        The inner product of two vectors has their width as `inner`, a scalar times a vector 1. Raises
        ValueError if `inner` does not divide the widths.
        """
        widths = self.width(left), self.width(right)
        if inner < 1 or any(width % inner for width in widths):
            raise ValueError(f"widths of {widths[0]} and {widths[1]}, but both must be multiples of {inner}")
        rows, columns = (width // inner for width in widths)
        return self.operate(MatrixProduct(rows, inner, columns), (left, right))[0]

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


@dataclass(frozen=True)
class TemplateNode:
    """An operation of a template.

    A template's values are numbered: first its arguments, then the nodes' outputs.
    """

    operation: Operation
    arguments: tuple[int, ...]
    index: int | None
    """The position of its index among the template's indices."""
    first: int
    """The number of its first output."""


@dataclass(frozen=True, eq=False)
class Template:
    """widths: of all values; arguments, indices: how many values and integers an application takes."""

    widths: tuple[int, ...]
    arguments: int
    indices: int
    nodes: tuple[TemplateNode, ...]
    results: tuple[int, ...]
    """The values that an application returns; all are outputs of nodes."""

    @cached_property
    def signatures(self) -> tuple[Hashable, ...]:
        """The signatures of its nodes, with the widths of their arguments."""
        return tuple(
            (node.operation.signature(), tuple(self.widths[value] for value in node.arguments))
            for node in self.nodes
        )

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The positions of its bounded indices, with their exclusive upper bounds."""
        return tuple(
            (node.index, node.operation.indices)
            for node in self.nodes
            if node.index is not None and node.operation.indices is not None
        )

    @classmethod
    def of(cls, operation: Operation, widths: Sequence[int] = ()) -> Template:
        """A template of a single operation. widths: of its arguments."""
        count = len(widths)
        index = 0 if operation.has_index else None
        node = TemplateNode(operation, tuple(range(count)), index, count)
        results = tuple(range(count, count + len(operation.outputs)))
        return cls((*widths, *operation.outputs), count, int(operation.has_index), (node,), results)

    @classmethod
    def trace(
        cls, write: Callable[..., Value | tuple[Value, ...]], widths: Sequence[int], indices: int = 0
    ) -> Template:
        """The operations that `write(writer, *values, *indices)` records. Raises ValueError."""
        tracer = _Tracer(widths)
        results = write(tracer, *range(len(widths)), *range(indices))
        results = results if isinstance(results, tuple) else (results,)
        if any(result < len(widths) for result in results):
            raise ValueError("a template must return results of its operations, not its own arguments")
        if len(set(results)) < len(results):
            raise ValueError("a template must not return the same value twice")
        return cls(tuple(tracer.widths), len(widths), indices, tuple(tracer.nodes), results)


class _Tracer(Writer):
    def __init__(self, widths: Sequence[int]):
        self.widths = list(widths)
        self.nodes: list[TemplateNode] = []

    def operate(
        self, operation: Operation, values: Sequence[Value], index: Index | None = None
    ) -> list[Value]:
        first = len(self.widths)
        self.nodes.append(TemplateNode(operation, tuple(values), index, first))
        self.widths += operation.outputs
        return list(range(first, len(self.widths)))

    def width(self, value: Value) -> int:
        return self.widths[value]


class CellOperation(Operation):
    def __init__(self, template: Template):
        """Raises ValueError for a template of several indices."""
        if template.indices > 1:
            raise ValueError(f"a cell takes at most one index, not {template.indices}")
        self._template = template
        self._nodes = [_node_of(template, node) for node in template.nodes]
        self.outputs = tuple(template.widths[result] for result in template.results)
        self.has_index = template.indices == 1
        self.indices = min((bound for _, bound in template.bounds), default=None)
        self.is_product = any(node.operation.is_product for node in template.nodes)
        self.kept = sum(node.operation.kept for node in template.nodes)

    def signature(self) -> Hashable:
        template = self._template
        wiring = tuple((node.arguments, node.index) for node in template.nodes)
        return type(self), template.signatures, wiring, template.results

    def forward(self, batch: OperationBatch) -> None:
        values: list[Tensor] = list(batch.inputs)
        rows = len(batch.outputs[0])
        batch.saved = []
        for node in self._nodes:
            outputs = [
                batch.outputs[0].new_empty(rows, width) if result is None else batch.outputs[result]
                for width, result in node.outputs
            ]
            columns = node.operation.columns
            inputs = [_joined([values[value][:, columns] for value in pack]) for pack in node.packs]
            inner = OperationBatch(inputs, outputs, batch.index if node.has_index else None)
            node.operation.forward(inner)
            batch.saved.append(inner)
            values += outputs

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        template = self._template
        gradient_of = _GradientBuffer(template.widths, batch.outputs[0])
        for result, gradient in zip(template.results, gradients, strict=True):
            gradient_of.add(result, gradient)
        kept: tuple[Tensor, ...] = ()
        for node, inner in zip(reversed(self._nodes), reversed(batch.saved), strict=True):
            found = node.operation.backward(inner, [gradient_of.at(value) for value in node.values])
            kept = found.kept + kept
            for pack, joint in zip(node.packs, found.inputs, strict=False):
                if joint is not None:
                    for value, part in zip(pack, joint.chunk(len(pack), dim=1), strict=True):
                        gradient_of.add(value, part, node.operation.columns)
        return OperationGradients([gradient_of.at(argument) for argument in range(template.arguments)], kept)

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        start = 0
        for node in self._template.nodes:
            stop = start + node.operation.kept
            if stop > start:
                node.operation.accumulate([batch[start:stop] for batch in batches])
            start = stop


class _Node(NamedTuple):
    """An operation of the template, with what its forward and backward passes need."""

    operation: Operation
    packs: list[list[int]]
    """For each input of the operation, the values that are concatenated."""
    values: range
    """Those that it computes."""
    outputs: list[tuple[int, int | None]]
    """The width of each of them, and its position among the results if it is one."""
    has_index: bool


def _node_of(template: Template, node: TemplateNode) -> _Node:
    operation, results = node.operation, template.results
    values = range(node.first, node.first + len(operation.outputs))
    return _Node(
        operation,
        [[node.arguments[place] for place in pack] for pack in operation.packs(len(node.arguments))],
        values,
        [(template.widths[value], results.index(value) if value in results else None) for value in values],
        node.index is not None,
    )


def _joined(values: Sequence[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.cat(list(values), dim=1)


class _GradientBuffer:
    """Gradients with respect to a template's values."""

    def __init__(self, widths: Sequence[int], like: Tensor):
        self._widths, self._like = widths, like
        self._gradients: dict[int, Tensor] = {}
        self._own: set[int] = set()  # values whose gradients may be modified

    def at(self, value: int) -> Tensor:
        """[rows, width]"""
        if value not in self._gradients:
            self._gradients[value] = self._like.new_zeros(len(self._like), self._widths[value])
            self._own.add(value)
        return self._gradients[value]

    def add(self, value: int, gradient: Tensor, columns: slice = ALL) -> None:
        if columns == ALL and value not in self._gradients:
            self._gradients[value] = gradient  # copied only if more is added; most values have one user
            return
        found = self.at(value)
        if value not in self._own:
            found = self._gradients[value] = found.clone()
            self._own.add(value)
        found[:, columns] += gradient
