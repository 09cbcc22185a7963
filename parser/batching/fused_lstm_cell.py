"""PyTorch's fused LSTM cell: on CUDA one kernel for what `lstm_cell` needs ten for.

The operators are private. So at first use their results are compared with those of the plain cell, and they
are not used where they are missing or differ.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from parser.console import warn

OPERATOR = "_thnn_fused_lstm_cell"
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}
"""By data type, the others being unsupported."""


class FusedCell(NamedTuple):
    """What a step gives. hidden, cell: [rows, hidden]; active: [rows, 4 * hidden] the activated gates."""

    hidden: Tensor
    cell: Tensor
    active: Tensor


def fused_cell(of_input: Tensor, of_hidden: Tensor, previous_cell: Tensor) -> FusedCell:
    """of_input, of_hidden: [rows, 4 * hidden], whose sum are the gates; previous_cell: [rows, hidden]."""
    return FusedCell(*getattr(torch.ops.aten, OPERATOR)(of_input, of_hidden, previous_cell))


def fused_cell_backward(
    d_hidden: Tensor | None, d_cell: Tensor | None, previous_cell: Tensor, cell: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the gates [rows, 4 * hidden] and of the previous cell state [rows, hidden].

    All [rows, hidden], but active [rows, 4 * hidden]; see `fused_cell`. None stands for zeros.
    """
    backward = getattr(torch.ops.aten, f"{OPERATOR}_backward_impl")
    d_gates, d_previous, _ = backward(d_hidden, d_cell, previous_cell, cell, active, False)
    return d_gates, d_previous


def has_fused_cell(gates: Tensor) -> bool:
    """Whether there is a fused cell for tensors like `gates`."""
    return gates.is_cuda and gates.dtype in TOLERANCES and _agrees(gates.device, gates.dtype)


@cache
@torch.inference_mode(False)
@torch.enable_grad()
def _agrees(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the fused cell computes what the plain one does. The host waits for the answer."""
    rows, hidden = 3, 5
    sizes = [4 * hidden, 4 * hidden, hidden, hidden, hidden]
    numbers = torch.linspace(-2, 2, rows * sum(sizes), device=device, dtype=dtype).sin().view(rows, -1)
    of_input, of_hidden, previous, d_hidden, d_cell = numbers.split(sizes, dim=1)
    try:
        fused = fused_cell(of_input, of_hidden, previous)
        backward = fused_cell_backward(d_hidden, d_cell, previous, fused.cell, fused.active)
    except (AttributeError, RuntimeError) as error:
        if OPERATOR not in str(error):  # of something else, such as memory
            raise
        return False
    gates, before = (of_input + of_hidden).requires_grad_(), previous.clone().requires_grad_()
    into, forget, new, out = gates.chunk(4, dim=1)
    cell = forget.sigmoid() * before + into.sigmoid() * new.tanh()
    plain = out.sigmoid() * cell.tanh(), cell
    expected = *plain, *torch.autograd.grad(plain, (gates, before), (d_hidden, d_cell))
    found = fused.hidden, fused.cell, *backward
    agrees = all(
        torch.allclose(one, other, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
        for one, other in zip(found, expected, strict=True)
    )
    if not agrees:
        warn("PyTorch's fused LSTM cell differs from the plain one, and is not used")
    return agrees
