"""Computing something for a part of a batch only."""

from __future__ import annotations

import torch
from torch import Tensor


def rows_where(needed: Tensor) -> Tensor:
    """[n] The rows for which something is computed: those where `needed` [batch] is True, or all."""
    if _can_wait_for_count(needed.device):
        return needed.nonzero().squeeze(1)
    return torch.arange(len(needed), device=needed.device)


def replace_rows(table: Tensor, which: Tensor, needed: Tensor, values: Tensor) -> None:
    """Replace the rows of a table [at least batch, size] where `needed` [batch] is True.

    which: [n] as from `rows_where`; values: [n, size].
    """
    if _can_wait_for_count(needed.device):
        table.index_copy_(0, which, values)
    else:
        own = table[: len(needed)]
        own.copy_(torch.where(needed[:, None], values, own))


def _can_wait_for_count(device: torch.device) -> bool:
    """Whether the host may ask how many rows are needed, which would stop a GPU at each step."""
    return device.type == "cpu"
