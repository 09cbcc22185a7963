"""Cells: a whole template fused into one operation, the coarse grain; and an LSTM in both grains.

The operations of the template run one after the other on the rows of a batch. The scheduler sees a single
operation, and intermediate values need no rows in the graph's memory. A step of an LSTM is one operation of
its own, or a dozen elementary operations.

`d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from parser.batching.functional import times_transposed
from parser.batching.lstm import (
    SIGMOID_BACKWARD,
    TANH_BACKWARD,
    activate_,
    activation_backward_,
    cell_state_gradient,
    tanh,
)
from parser.batching.operations.elementary_operations import Linear
from parser.batching.operations.operation import (
    ALL,
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
    concatenate_kept,
    leaf,
    run_backward,
    run_forward,
)
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer

Grain = Literal["cell", "operation"]
"""Whether a cell is recorded as a single operation, or as its elementary operations, as in the paper."""


class CellOperation(Operation):
    """A template as one operation.

    >>> template = Template.trace(lambda writer, state, word: writer.tanh(state + word), widths=(2, 2))
    >>> cell = CellOperation(template)
    >>> graph = Graph("agenda", "cpu")
    >>> state, *words = graph.add_values(torch.zeros(4, 2))
    >>> for word in words:
    ...     (state,) = graph.operate(cell, (state, word))
    >>> len(graph.schedule())
    3
    """

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
            returned = run_backward(node.operation, inner, [gradient_of.at(value) for value in node.values])
            kept = returned.kept + kept
            for pack, joint in zip(node.packs, returned.inputs, strict=True):
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


def trace_template(
    grain: Grain, write: Callable[..., Value | Sequence[Value]], widths: Sequence[int], indices: int = 0
) -> Template:
    """Like `Template.trace`, but fuse all operations into one if the grain is `cell`."""
    template = Template.trace(write, widths, indices)
    return Template.of(CellOperation(template), widths) if grain == "cell" else template


Packs = tuple[tuple[int, ...], ...]


def _packs_of(template: Template) -> Packs:
    """Return the cell's packs: packs of operations, if nothing else uses their values, or single values."""
    uses = Counter(value for node in template.nodes for value in node.arguments)
    first: dict[int, tuple[int, ...]] = {}  # pack by its first argument
    inside: set[int] = set()
    for node in template.nodes:
        for positions in node.operation.packs(len(node.arguments)):
            pack = tuple(node.arguments[position] for position in positions)
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
    number_of: dict[tuple[int, ...], int] = {pack: number for number, pack in enumerate(packs)}
    shift = len(packs) - template.arguments
    results = {value: number for number, value in enumerate(template.results)}
    nodes = []
    for node in template.nodes:
        operation = node.operation
        values = range(node.first, node.first + len(operation.outputs))
        taken = [
            tuple(node.arguments[position] for position in pack)
            for pack in operation.packs(len(node.arguments))
        ]
        inputs = [
            [number_of[pack]] if pack in number_of else [number_of[(value,)] for value in pack]
            for pack in taken
        ]
        number_of |= {(value,): value + shift for value in values}
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
        total = self.at(value)
        if value not in self._own:
            total = self._gradients[value] = total.clone()
            self._own.add(value)
        total[:, columns] += gradient


class LSTMTemplates(NamedTuple):
    """An LSTM in a graph: `project` each input, then chain `first` and `following` over the projections."""

    project: Template
    first: Template
    following: Template


def lstm_templates(
    weight_in: Tensor, weight: Tensor, bias: Tensor, grain: Grain, values: int = 1
) -> LSTMTemplates:
    """Return one layer in one direction. Its results are the hidden state and the cell state, [hidden] each.

    weight_in: [4 * hidden, in], weight: [4 * hidden, hidden], bias: [4 * hidden], gates in torch's order;
    values: the number of values of equal width that are concatenated to one input.
    """
    hidden = weight.shape[1]
    project = Template.of(Linear(weight_in, bias), (weight_in.shape[1] // values,) * values)
    if grain == "cell":
        first = Template.of(LSTMStart(hidden), (4 * hidden,))
        following = Template.of(LSTMStep(weight), (4 * hidden, hidden, hidden))
        return LSTMTemplates(project, first, following)

    def start(writer: Writer, gates: Value) -> tuple[Value, Value]:
        input_gate, _, cell_gate, output_gate = slices(writer, gates, hidden)
        return write_states(writer, input_gate, cell_gate, output_gate)

    def step(
        writer: Writer, gates: Value, previous_hidden: Value, previous_cell: Value
    ) -> tuple[Value, Value]:
        gates = writer.add(gates, writer.linear(weight, previous_hidden))
        input_gate, forget_gate, cell_gate, output_gate = slices(writer, gates, hidden)
        forgotten = write_forget(writer, forget_gate, previous_cell)
        return write_states(writer, input_gate, cell_gate, output_gate, forgotten)

    first = Template.trace(start, (4 * hidden,))
    return LSTMTemplates(project, first, Template.trace(step, (4 * hidden, hidden, hidden)))


def slices(writer: Writer, gates: Value, hidden: int) -> list[Value]:
    """Cut the value into slices of width `hidden`."""
    return [writer.slice(gates, start, start + hidden) for start in range(0, writer.width(gates), hidden)]


def write_forget(writer: Writer, forget_gate: Value, cell: Value) -> Value:
    """Apply a forget gate to an earlier cell state. The gate is given before its activation."""
    return writer.multiply(writer.sigmoid(forget_gate), cell)


def write_states(
    writer: Writer, input_gate: Value, cell_gate: Value, output_gate: Value, *forgotten: Value
) -> tuple[Value, Value]:
    """Return the hidden and cell state. Gates are given before activation; forgotten: see `write_forget`."""
    cell = writer.multiply(writer.sigmoid(input_gate), writer.tanh(cell_gate))
    for previous in forgotten:
        cell = writer.add(cell, previous)
    return writer.multiply(writer.sigmoid(output_gate), writer.tanh(cell)), cell


class LSTMStart(Operation):
    """A first step: from the projected input to hidden and cell state, without previous states."""

    def __init__(self, hidden: int, gates: int = 4):
        """gates: 4, in torch's order, or 3, without the forget gate."""
        self.width, self._cell_gate = gates * hidden, gates - 2
        self.outputs = (hidden, hidden)

    def signature(self) -> Hashable:
        return type(self), self.width, self.outputs

    def forward(self, batch: OperationBatch) -> None:
        gates, (hidden, cell) = batch.inputs[0].clone(), batch.outputs
        input_gate, cell_gate, output_gate = self._gates(gates)
        activate_(gates, self.outputs[0], self._cell_gate)
        torch.mul(input_gate, cell_gate, out=cell)
        tanh_cell = tanh(cell)
        torch.mul(output_gate, tanh_cell, out=hidden)
        batch.saved = gates, tanh_cell

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        active, tanh_cell = batch.saved
        d_hidden, d_cell = gradients
        input_gate, cell_gate, output_gate = self._gates(active)
        d_cell = cell_state_gradient(d_hidden, output_gate, tanh_cell, d_cell)
        d_gates = batch.empty_gradient(0)
        d_input, d_cell_gate, d_output = self._gates(d_gates)
        d_gates[:, self.outputs[0] : -2 * self.outputs[0]] = 0.0  # the forget gate, if there is one
        torch.mul(d_cell, cell_gate, out=d_input)
        torch.mul(d_cell, input_gate, out=d_cell_gate)
        torch.mul(d_hidden, tanh_cell, out=d_output)
        activation_backward_(d_gates, active, self.outputs[0], self._cell_gate)
        return OperationGradients((d_gates,))

    def _gates(self, gates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the input gate, the cell gate and the output gate, [rows, hidden] each."""
        hidden = self.outputs[0]
        return gates[:, :hidden], gates[:, -2 * hidden : -hidden], gates[:, -hidden:]


class LSTMStep(Operation):
    """From the projected input [4 * hidden] and the previous states to hidden and cell state."""

    is_product = True
    kept = 2

    def __init__(self, weight: Tensor):
        """weight: [4 * hidden, hidden], the recurrent weights."""
        self.weight = leaf(weight)
        self.parameters = (weight,)
        self.outputs = (weight.shape[1], weight.shape[1])

    def signature(self) -> Hashable:
        return type(self), id(self.weight)

    def forward(self, batch: OperationBatch) -> None:
        projected, previous_hidden, previous_cell = batch.inputs
        hidden, cell = batch.outputs
        gates = times_transposed(previous_hidden, self.weight).add_(projected)
        activate_(gates, self.outputs[0])
        input_gate, forget_gate, cell_gate, output_gate = gates.chunk(4, dim=1)
        torch.mul(input_gate, cell_gate, out=cell).addcmul_(forget_gate, previous_cell)
        tanh_cell = tanh(cell)
        torch.mul(output_gate, tanh_cell, out=hidden)
        batch.saved = gates, tanh_cell

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        _, previous_hidden, previous_cell = batch.inputs
        active, tanh_cell = batch.saved
        d_hidden, d_cell = gradients
        input_gate, forget_gate, cell_gate, output_gate = active.chunk(4, dim=1)
        d_cell = cell_state_gradient(d_hidden, output_gate, tanh_cell, d_cell)
        d_gates, d_previous_cell = batch.empty_gradient(0), batch.empty_gradient(2)
        d_input, d_forget, d_cell_gate, d_output = d_gates.chunk(4, dim=1)
        torch.mul(d_cell, cell_gate, out=d_input)
        torch.mul(d_cell, previous_cell, out=d_forget)
        torch.mul(d_hidden, tanh_cell, out=d_output)
        # For few rows, one call is faster than two. The cell gate, which is not a sigmoid, comes later.
        SIGMOID_BACKWARD(d_gates, active, grad_input=d_gates)
        torch.mul(d_cell, input_gate, out=d_cell_gate)
        TANH_BACKWARD(d_cell_gate, cell_gate, grad_input=d_cell_gate)
        torch.mul(d_cell, forget_gate, out=d_previous_cell)
        d_previous_hidden = times_transposed(d_gates, self.weight.T)
        return OperationGradients((d_gates, d_previous_hidden, d_previous_cell), (d_gates, previous_hidden))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        d_gates, previous_hidden = concatenate_kept(batches)
        gradients.add_product(self.weight, d_gates, previous_hidden)
