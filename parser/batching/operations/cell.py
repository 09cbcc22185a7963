"""Cells: a whole template fused into one operation, the coarse grain.

The operations of the template run one after the other on the rows of a batch. The scheduler sees a single
operation, and intermediate values need no rows in the graph's memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from parser.batching.operations.calls import run_backward, run_forward
from parser.batching.operations.operation import ALL, Operation, OperationBatch, OperationGradients
from parser.batching.operations.parameter_gradients import ParameterGradients
from parser.batching.operations.template import Template
from parser.batching.operations.value import Value


class CellOperation(Operation):
    def __init__(self, template: Template):
        """Raises ValueError for a template with several indices."""
        if template.indices > 1:
            raise ValueError(f"a cell takes at most one index, not {template.indices}")
        self._template = template
        self._packs = _packs_of(template)
        self._nodes = _nodes_of(template, self._packs)
        self.outputs = tuple(template.widths[result] for result in template.results)
        self.has_index = template.indices == 1
        self.index_bound = template.index_bounds[0] if self.has_index else None
        self.is_product = any(node.operation.is_product for node in template.nodes)
        self.parameters = tuple(
            dict.fromkeys(parameter for node in template.nodes for parameter in node.operation.parameters)
        )
        self.keeps_rows = all(node.operation.keeps_rows for node in template.nodes)
        self.kept = sum(node.operation.kept for node in template.nodes)
        operations = tuple(
            (node.operation.signature(), node.arguments, node.index) for node in template.nodes
        )
        widths = template.widths[: template.arguments]
        self._signature = type(self), operations, widths, template.results

    def signature(self) -> Hashable:
        return self._signature

    def parts(self) -> Sequence[Operation]:
        return [part for node in self._nodes for part in node.operation.parts()]

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return self._packs

    def forward(self, batch: OperationBatch) -> None:
        values: list[Tensor] = list(batch.inputs)
        rows = len(batch.outputs[0])
        batch.saved = []
        for node in self._nodes:
            outputs = [
                batch.outputs[0].new_empty(rows, width) if result is None else batch.outputs[result]
                for width, result in node.outputs
            ]
            inputs = [
                _joined([values[value] for value in pack], node.operation.columns) for pack in node.packs
            ]
            inner = OperationBatch(inputs, outputs, batch.index if node.has_index else None)
            run_forward(node.operation, inner)
            batch.saved.append(inner)
            values += outputs

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        gradient_of = _GradientBuffer([*batch.inputs, *(v for inner in batch.saved for v in inner.outputs)])
        for node in self._nodes:
            for value, (_, result) in zip(node.values, node.outputs, strict=True):
                if result is not None:
                    gradient_of.add(value, gradients[result])
        kept: tuple[Tensor, ...] = ()
        for node, inner in zip(reversed(self._nodes), reversed(batch.saved), strict=True):
            found = run_backward(node.operation, inner, [gradient_of.at(value) for value in node.values])
            kept = found.kept + kept
            for pack, joint in zip(node.packs, found.inputs, strict=True):
                if joint is not None:
                    for value, part in zip(pack, joint.chunk(len(pack), dim=1), strict=True):
                        gradient_of.add(value, part, node.operation.columns)
        return OperationGradients([gradient_of.at(value) for value in range(len(batch.inputs))], kept)

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        start = 0
        for node in self._template.nodes:
            stop = start + node.operation.kept
            if stop > start:
                node.operation.accumulate([batch[start:stop] for batch in batches], gradients)
            start = stop


Packs = tuple[tuple[int, ...], ...]


def _packs_of(template: Template) -> Packs:
    """Return the cell's packs: packs of operations, if nothing else uses their values, or single values."""
    uses = Counter(value for node in template.nodes for value in node.arguments)
    first: dict[int, tuple[int, ...]] = {}  # pack by its first argument
    inside: set[int] = set()
    for node in template.nodes:
        for places in node.operation.packs(len(node.arguments)):
            pack = tuple(node.arguments[place] for place in places)
            if all(value < template.arguments and uses[value] == 1 for value in pack):
                first[pack[0]] = pack
                inside.update(pack[1:])
    return tuple(first.get(value, (value,)) for value in range(template.arguments) if value not in inside)


class _Node(NamedTuple):
    """An operation of the template, with what its forward and backward passes need.

    The values of a cell are numbered: first its packs, then the outputs of its operations.
    """

    operation: Operation
    packs: list[list[int]]
    """For each input of the operation, the values that are concatenated."""
    values: range
    """The values that the operation computes."""
    outputs: list[tuple[int, int | None]]
    """The width of each computed value, and its position among the results if it is a result."""
    has_index: bool


def _nodes_of(template: Template, packs: Packs) -> list[_Node]:
    """Return the operations of the template. packs: the packs of the cell."""
    own: dict[tuple[int, ...], int] = {pack: number for number, pack in enumerate(packs)}
    shift = len(packs) - template.arguments
    results = {value: number for number, value in enumerate(template.results)}
    nodes = []
    for node in template.nodes:
        operation = node.operation
        values = range(node.first, node.first + len(operation.outputs))
        taken = [
            tuple(node.arguments[place] for place in pack) for pack in operation.packs(len(node.arguments))
        ]
        inputs = [[own[pack]] if pack in own else [own[(value,)] for value in pack] for pack in taken]
        own |= {(value,): value + shift for value in values}
        outputs = [(template.widths[value], results.get(value)) for value in values]
        nodes.append(
            _Node(
                operation,
                inputs,
                range(node.first + shift, node.first + shift + len(values)),
                outputs,
                node.index is not None,
            )
        )
    return nodes


def _joined(values: Sequence[Tensor], columns: slice) -> Tensor:
    joined = values[0] if len(values) == 1 else torch.cat(list(values), dim=1)
    return joined if columns == ALL else joined[:, columns]


class _GradientBuffer:
    """Gradients with respect to a cell's values."""

    def __init__(self, values: Sequence[Tensor]):
        self._values = values
        self._gradients: dict[int, Tensor] = {}
        self._own: set[int] = set()  # values whose gradients may be modified

    def at(self, value: int) -> Tensor:
        """[rows, width] The gradient of a value."""
        if value not in self._gradients:
            self._gradients[value] = torch.zeros_like(self._values[value])
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


Grain = Literal["cell", "operation"]
"""Whether a cell is recorded as a single operation, or as its elementary operations, as in the paper."""


def trace_template(
    grain: Grain,
    write: Callable[..., Value | Sequence[Value]],
    widths: Sequence[int],
    indices: int = 0,
) -> Template:
    """Like `Template.trace`, but fuse all operations into one if the grain is `cell`."""
    template = Template.trace(write, widths, indices)
    return Template.of(CellOperation(template), widths) if grain == "cell" else template
