"""An LSTM for graphs of operations: a step is one operation, or a dozen elementary operations.

`d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

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
from parser.batching.operations.cell import Grain
from parser.batching.operations.elementary_operations import Linear
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    concatenate_kept,
    leaf,
)
from parser.batching.operations.parameter_gradients import ParameterGradients
from parser.batching.operations.template import Template, Writer
from parser.batching.operations.value import Value


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
