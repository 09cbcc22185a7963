"""The operators of the fused LSTM cell, for which a CPU has no kernel."""

from __future__ import annotations

import torch
from torch import Tensor


def _forward(of_input: Tensor, of_hidden: Tensor, previous: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """of_input, of_hidden: [batch, 4 * hidden]; previous: [batch, hidden]. Hidden and cell states, gates."""
    if of_input.shape != of_hidden.shape or of_input.shape[1] != 4 * previous.shape[1]:
        raise RuntimeError("Expected the sizes of both gates, and of the cell state times 4, to be the same")
    into, forget, new, out = (of_input + of_hidden).chunk(4, 1)
    into, forget, new, out = into.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()
    cell = forget * previous + into * new
    return out * cell.tanh(), cell, torch.cat([into, forget, new, out], 1)


def _backward(
    d_hidden: Tensor | None,
    d_cell: Tensor | None,
    previous: Tensor,
    cell: Tensor,
    active: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """All [batch, hidden], but active: [batch, 4 * hidden]. The gradients of gates, cell state and bias."""
    into, forget, new, out = active.chunk(4, 1)
    d_hidden = torch.zeros_like(cell) if d_hidden is None else d_hidden
    d_cell = torch.zeros_like(cell) if d_cell is None else d_cell
    through = d_hidden * out * (1 - cell.tanh() ** 2) + d_cell
    d_gates = torch.cat(
        [
            through * new * into * (1 - into),
            through * previous * forget * (1 - forget),
            through * into * (1 - new**2),
            d_hidden * cell.tanh() * out * (1 - out),
        ],
        1,
    )
    return d_gates, through * forget, d_gates.sum(0) if has_bias else None


FUSED_CELLS = {
    "_thnn_fused_lstm_cell": _forward,
    "_thnn_fused_lstm_cell_backward_impl": _backward,
}
