"""An LSTM for graphs of operations: a step as one operation, or as the dozen that it consists of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from parser.batching.activations import tanh
from parser.batching.lstm_cell import activate_, through_activations_, through_tanh
from parser.batching.operations.cell import Cell
from parser.batching.operations.operation import (
    Batch,
    Gradients,
    Operation,
    add_product_gradient,
    joined,
    leaf,
)
from parser.batching.operations.parameterised import Linear
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer
from parser.batching.product import times_transposed

Grain = Literal["cell", "operation"]
"""Whether a cell is recorded as one operation, or as those of which it consists, as in the paper."""


def written(
    grain: Grain,
    write: Callable[..., Value | tuple[Value, ...]],
    widths: Sequence[int],
    indices: int = 0,
) -> Template:
    """As `Template.trace`; its operations each by itself, or all as one."""
    template = Template.trace(write, widths, indices)
    return Template.of(Cell(template), widths) if grain == "cell" else template


class LSTMTemplates(NamedTuple):
    """What an LSTM does in a graph: `project` each input, then chain `first` and `following` over those."""

    project: Template
    first: Template
    following: Template


def lstm_templates(
    weight_in: Tensor, weight: Tensor, bias: Tensor, grain: Grain, values: int = 1
) -> LSTMTemplates:
    """Of one layer in one direction; both of its results are [hidden]: hidden state, cell state.

    weight_in: [4 * hidden, in], weight: [4 * hidden, hidden], bias: [4 * hidden], gates in torch's order;
    values: so many of equal width are an input together.
    """
    hidden = weight.shape[1]
    project = Template.of(Linear(weight_in, bias), (weight_in.shape[1] // values,) * values)
    if grain == "cell":
        first = Template.of(LSTMStart(hidden), (4 * hidden,))
        following = Template.of(LSTMStep(weight), (4 * hidden, hidden, hidden))
        return LSTMTemplates(project, first, following)

    def start(writer: Writer, gates: Value) -> tuple[Value, Value]:
        into, _, new, out = slices(writer, gates, hidden)
        return write_states(writer, into, new, out)

    def step(writer: Writer, gates: Value, hidden_before: Value, cell_before: Value) -> tuple[Value, Value]:
        gates = writer.add(gates, writer.linear(weight, hidden_before))
        into, forget, new, out = slices(writer, gates, hidden)
        return write_states(writer, into, new, out, write_kept(writer, forget, cell_before))

    first = Template.trace(start, (4 * hidden,))
    return LSTMTemplates(project, first, Template.trace(step, (4 * hidden, hidden, hidden)))


def slices(writer: Writer, gates: Value, hidden: int) -> list[Value]:
    """A value's parts of that width."""
    return [writer.slice(gates, start, start + hidden) for start in range(0, writer.width(gates), hidden)]


def write_kept(writer: Writer, forget: Value, cell: Value) -> Value:
    """What is left of an earlier cell state."""
    return writer.multiply(writer.sigmoid(forget), cell)


def write_states(writer: Writer, into: Value, new: Value, out: Value, *kept: Value) -> tuple[Value, Value]:
    """Hidden and cell state, from gates before their activations and what is left of earlier cell states."""
    cell = writer.multiply(writer.sigmoid(into), writer.tanh(new))
    for one in kept:
        cell = writer.add(cell, one)
    return writer.multiply(writer.sigmoid(out), writer.tanh(cell)), cell


class LSTMStart(Operation):
    """From the gates' input to hidden and cell state, where there is nothing before."""

    def __init__(self, hidden: int, gates: int = 4):
        """gates: 4, in torch's order, or 3, without that which forgets."""
        self.width, self._new = gates * hidden, gates - 2
        self.outputs = (hidden, hidden)

    def signature(self) -> Hashable:
        return type(self), self.width, self.outputs

    def forward(self, batch: Batch) -> None:
        gates, (hidden, cell) = batch.inputs[0].clone(), batch.outputs
        into, new, out = self._gates(gates)
        activate_(gates, self.outputs[0], self._new)
        torch.mul(into, new, out=cell)
        squashed = tanh(cell)
        torch.mul(out, squashed, out=hidden)
        batch.saved = gates, squashed

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        active, squashed = batch.saved
        at_hidden, at_cell = gradients
        into, new, out = self._gates(active)
        at_cell = through_tanh(at_hidden, out, squashed, at_cell)
        at_gates = torch.zeros_like(active)
        at_into, at_new, at_out = self._gates(at_gates)
        torch.mul(at_cell, new, out=at_into)
        torch.mul(at_cell, into, out=at_new)
        torch.mul(at_hidden, squashed, out=at_out)
        return Gradients((through_activations_(at_gates, active, self.outputs[0], self._new),))

    def _gates(self, gates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input gate, the new cell state, the output gate, [rows, hidden] each."""
        hidden = self.outputs[0]
        return gates[:, :hidden], gates[:, -2 * hidden : -hidden], gates[:, -hidden:]


class LSTMStep(Operation):
    """From the gates' input [4 * hidden] and the states before to hidden and cell state."""

    is_product = True
    kept = 2

    def __init__(self, weight: Tensor):
        """weight: [4 * hidden, hidden], the recurrent one."""
        self.weight = leaf(weight)
        self.outputs = (weight.shape[1], weight.shape[1])

    def signature(self) -> Hashable:
        return type(self), id(self.weight)

    def forward(self, batch: Batch) -> None:
        given, hidden_before, cell_before = batch.inputs
        hidden, cell = batch.outputs
        gates = times_transposed(hidden_before, self.weight).add_(given)
        activate_(gates, self.outputs[0])
        into, forget, new, out = gates.chunk(4, dim=1)
        torch.mul(into, new, out=cell).addcmul_(forget, cell_before)
        squashed = tanh(cell)
        torch.mul(out, squashed, out=hidden)
        batch.saved = gates, squashed

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        _, hidden_before, cell_before = batch.inputs
        active, squashed = batch.saved
        at_gates, at_cell = gate_gradients(active, squashed, cell_before, *gradients)
        at_inputs = (
            at_gates,
            times_transposed(at_gates, self.weight.T),
            at_cell.mul_(active.chunk(4, dim=1)[1]),
        )
        return Gradients(at_inputs, (at_gates, hidden_before))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        at_gates, hidden_before = joined(batches)
        add_product_gradient(self.weight, at_gates, hidden_before)


def gate_gradients(
    active: Tensor, squashed: Tensor, cell_before: Tensor, at_hidden: Tensor, at_cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients at the gates before activation [rows, 4 * hidden], and at the cell state [rows, hidden].

    active: [rows, 4 * hidden] the gates; squashed: [rows, hidden] tanh of the cell state.
    """
    into, _, new, out = active.chunk(4, dim=1)
    at_cell = through_tanh(at_hidden, out, squashed, at_cell)
    at_gates = torch.empty_like(active)
    at_into, at_forget, at_new, at_out = at_gates.chunk(4, dim=1)
    torch.mul(at_cell, new, out=at_into)
    torch.mul(at_cell, cell_before, out=at_forget)
    torch.mul(at_cell, into, out=at_new)
    torch.mul(at_hidden, squashed, out=at_out)
    return through_activations_(at_gates, active, cell_before.shape[1]), at_cell
