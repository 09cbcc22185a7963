"""The elementwise part of an LSTM cell (Hochreiter & Schmidhuber 1997, with forget gates).

With the gates in torch's order: i, f, o = sigmoid, g = tanh;  c = f * previous c + i * g;  h = o * tanh(c).
`d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.activations import tanh, tanh_is_slow, twice_less_one_
from parser.batching.fused_lstm_cell import fused_cell, fused_cell_backward, has_fused_cell


def lstm_cell(of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell states, each [batch, hidden].

    of_input, of_hidden: [batch, 4 * hidden], whose sum are the gates before their activations;
    previous_cell: [batch, hidden].
    """
    function = _FusedCellFunction if has_fused_cell(of_input) else _PlainCellFunction
    return function.apply(of_input, of_hidden, previous_cell)


def activate_(gates: Tensor, hidden: int, cell_gate: int = 2) -> None:
    """Apply tanh to the cell gate and sigmoid to the other gates, in place.

    gates: [batch, gates * hidden]; cell_gate: its position among the gates.
    """
    before, cell, after = _split(gates, hidden, cell_gate)
    if tanh_is_slow(gates):
        cell *= 2
        gates.sigmoid_()
        twice_less_one_(cell)
        return
    for gate in (before, after):
        gate.sigmoid_()
    cell.tanh_()


def activation_backward_(gradient: Tensor, active: Tensor, hidden: int, cell_gate: int = 2) -> Tensor:
    """Turn the gradient with respect to activated gates into that before the activations, in place.

    gradient, active: [batch, gates * hidden], the latter the activated gates; cell_gate: as in `activate_`.
    """
    sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
    pairs = zip(_split(gradient, hidden, cell_gate), _split(active, hidden, cell_gate), strict=True)
    backwards = (sigmoid_backward, tanh_backward, sigmoid_backward)
    for (d_gate, gate), backward in zip(pairs, backwards, strict=True):
        backward.grad_input(d_gate, gate, grad_input=d_gate)
    return gradient


def _split(gates: Tensor, hidden: int, cell_gate: int) -> tuple[Tensor, Tensor, Tensor]:
    """The gates before the cell gate, the cell gate, and the gates after it."""
    start, stop = cell_gate * hidden, (cell_gate + 1) * hidden
    return gates[:, :start], gates[:, start:stop], gates[:, stop:]


def cell_state_gradient(d_hidden: Tensor, output_gate: Tensor, tanh_cell: Tensor, d_cell: Tensor) -> Tensor:
    """[batch, hidden] The full gradient with respect to the cell state: through h = o * tanh(c), and direct.

    All [batch, hidden]. tanh_cell: tanh of the cell state; d_cell: the direct part.
    """
    found = d_hidden * output_gate
    return torch.ops.aten.tanh_backward.grad_input(found, tanh_cell, grad_input=found).add_(d_cell)


class _PlainCellFunction(Function):
    @staticmethod
    def forward(
        ctx: Any, of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        active = of_input + of_hidden
        activate_(active, previous_cell.shape[1])
        input_gate, forget_gate, cell_gate, output_gate = active.chunk(4, dim=1)
        cell = torch.addcmul(forget_gate * previous_cell, input_gate, cell_gate)
        tanh_cell = tanh(cell)
        ctx.save_for_backward(active, previous_cell, tanh_cell)
        return output_gate * tanh_cell, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor, d_cell: Tensor) -> tuple[Tensor, ...]:
        active, previous_cell, tanh_cell = ctx.saved_tensors
        input_gate, forget_gate, cell_gate, output_gate = active.chunk(4, dim=1)
        d_cell = cell_state_gradient(d_hidden, output_gate, tanh_cell, d_cell)
        d_gates = torch.cat(
            [
                d_cell * cell_gate,
                d_cell * previous_cell,
                d_cell * input_gate,
                d_hidden * tanh_cell,
            ],
            dim=1,
        )
        activation_backward_(d_gates, active, previous_cell.shape[1])
        return d_gates, d_gates, d_cell * forget_gate


class _FusedCellFunction(Function):
    @staticmethod
    def forward(
        ctx: Any, of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        hidden, cell, active = fused_cell(of_input, of_hidden, previous_cell)
        ctx.save_for_backward(previous_cell, cell, active)
        return hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor | None, d_cell: Tensor | None) -> tuple[Tensor, ...]:
        d_gates, d_previous_cell = fused_cell_backward(d_hidden, d_cell, *ctx.saved_tensors)
        return d_gates, d_gates, d_previous_cell
