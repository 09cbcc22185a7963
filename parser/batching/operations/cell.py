"""A whole template fused into one operation: the coarse grain.

Its operations run one after the other on the rows of a batch. The scheduler sees a single node, and the
values between the operations need no rows in the graph's memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.operations.operation import ALL, Operation, OperationBatch, OperationGradients
from parser.batching.operations.template import Template, TemplateNode


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
