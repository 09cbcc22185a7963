"""The elementwise half of an LSTM cell (Hochreiter & Schmidhuber 1997, with forget gates).

With gates in torch's order: i, f, o = sigmoid, g = tanh;  c = f * c_before + i * g;  h = o * tanh(c).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.activations import tanh


def lstm_cell(gates: Tensor, cell_before: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell states, each [batch, hidden].

    gates: [batch, 4 * hidden], before their activations; cell_before: [batch, hidden].
    """
    return _Cell.apply(gates, cell_before)


def activate_(gates: Tensor) -> None:
    """Sigmoid on the input, forget and output gates, tanh on the new cell, in place."""
    new = gates.chunk(4, dim=1)[2]
    new *= 2
    gates.sigmoid_()
    new.mul_(2).sub_(1)


def through_activations_(gradient: Tensor, active: Tensor) -> Tensor:
    """Turn a gradient at the gates after their activations into that before, in place.

    gradient, active: [batch, 4 * hidden], the latter the gates after their activations.
    """
    new, at_new = active.chunk(4, dim=1)[2], gradient.chunk(4, dim=1)[2]
    before = torch.ops.aten.tanh_backward(at_new, new)
    torch.ops.aten.sigmoid_backward.grad_input(gradient, active, grad_input=gradient)
    at_new.copy_(before)
    return gradient


class _Cell(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell_before: Tensor) -> tuple[Tensor, Tensor]:
        active = gates.clone()
        activate_(active)
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
        at_cell = torch.addcmul(at_cell, at_hidden, out * (1 - squashed * squashed))
        at_gates = torch.cat(
            [at_cell * new, at_cell * cell_before, at_cell * into, at_hidden * squashed], dim=1
        )
        return through_activations_(at_gates, active), at_cell * forget
