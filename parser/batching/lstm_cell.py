"""The elementwise half of an LSTM cell (Hochreiter & Schmidhuber 1997, with forget gates).

With gates in torch's order: i, f, o = sigmoid, g = tanh;  c = f * c_before + i * g;  h = o * tanh(c).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.activations import tanh, tanh_is_slow


def lstm_cell(gates: Tensor, cell_before: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell states, each [batch, hidden].

    gates: [batch, 4 * hidden], before their activations; cell_before: [batch, hidden].
    """
    return _Cell.apply(gates, cell_before)


def activate_(gates: Tensor, hidden: int, new: int = 2) -> None:
    """Tanh on the new cell state and sigmoid on the other gates, in place.

    gates: [batch, gates * hidden]; new: the place of the new cell state among them.
    """
    before, state, after = _apart(gates, hidden, new)
    if tanh_is_slow(gates):
        state *= 2
        gates.sigmoid_()
        state.mul_(2).sub_(1)
        return
    for gate in (before, after):
        gate.sigmoid_()
    state.tanh_()


def through_activations_(gradient: Tensor, active: Tensor, hidden: int, new: int = 2) -> Tensor:
    """Turn a gradient at the gates after their activations into that before, in place.

    gradient, active: [batch, gates * hidden], the latter the gates after their activations; new: as above.
    """
    through_sigmoid, through_tanh = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
    pairs = zip(_apart(gradient, hidden, new), _apart(active, hidden, new), strict=True)
    for (at_gate, gate), through in zip(pairs, (through_sigmoid, through_tanh, through_sigmoid), strict=True):
        through.grad_input(at_gate, gate, grad_input=at_gate)
    return gradient


def _apart(gates: Tensor, hidden: int, new: int) -> tuple[Tensor, Tensor, Tensor]:
    """The gates before the new cell state, that, and those after it."""
    start, stop = new * hidden, (new + 1) * hidden
    return gates[:, :start], gates[:, start:stop], gates[:, stop:]


def through_tanh(at_hidden: Tensor, out: Tensor, squashed: Tensor, at_cell: Tensor) -> Tensor:
    """[batch, hidden] The whole gradient at the cell state, whose tanh was multiplied by the output gate."""
    return torch.ops.aten.tanh_backward(at_hidden * out, squashed).add_(at_cell)


class _Cell(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell_before: Tensor) -> tuple[Tensor, Tensor]:
        active = gates.clone()
        activate_(active, cell_before.shape[1])
        into, forget, new, out = active.chunk(4, dim=1)
        cell = torch.addcmul(forget * cell_before, into, new)
        squashed = tanh(cell)
        ctx.save_for_backward(active, cell_before, squashed)
        return out * squashed, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, at_hidden: Tensor, at_cell: Tensor) -> tuple[Tensor, Tensor]:
        active, cell_before, squashed = ctx.saved_tensors
        into, forget, new, out = active.chunk(4, dim=1)
        at_cell = through_tanh(at_hidden, out, squashed, at_cell)
        at_gates = torch.cat(
            [at_cell * new, at_cell * cell_before, at_cell * into, at_hidden * squashed], dim=1
        )
        return through_activations_(at_gates, active, cell_before.shape[1]), at_cell * forget
