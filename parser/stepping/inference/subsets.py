"""Computing something for a part of a batch only."""

from __future__ import annotations

import torch
from torch import Tensor


def rows_where(needed: Tensor) -> Tensor:
    """[n] The rows for which something is computed: on a CPU those where `needed` [batch] is True.

    On a GPU all rows, because the host would have to wait for their number.
    """
    if needed.device.type == "cpu":
        return needed.nonzero().squeeze(1)
    return torch.arange(len(needed), device=needed.device)


def replace_rows(table: Tensor, which: Tensor, needed: Tensor, values: Tensor) -> None:
    """Replace the rows of a table [at least batch, size] where `needed` [batch] is True.

    which: [n] as from `rows_where`; values: [n, size].
    """
    if needed.device.type == "cpu":
        table.index_copy_(0, which, values)
    else:
        own = table[: len(needed)]
        own.copy_(torch.where(needed[:, None], values, own))
