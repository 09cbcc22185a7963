"""Embedding tables with sparse gradients."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.optim import Adam, Optimizer, SparseAdam


def sparse_table(entries: int, width: int) -> nn.Embedding:
    """An embedding whose gradient has only the rows that were read, so that a step skips the others."""
    table = nn.Embedding(entries, width, sparse=True)
    nn.init.normal_(table.weight, std=0.1)
    return table


def table_optimizer(weights: Iterable[Tensor], rate: float) -> Optimizer:
    """Adam that updates only the rows that were read."""
    return SparseAdam(list(weights), lr=rate)


def optimizers(network: nn.Module, rate: float) -> list[Optimizer]:
    """Adam for dense parameters, and SparseAdam for sparse tables if there are any."""
    tables = {part.weight for part in network.modules() if isinstance(part, nn.Embedding) and part.sparse}
    others = [weight for weight in network.parameters() if weight.requires_grad and weight not in tables]
    found: list[Optimizer] = [Adam(others, lr=rate, fused=True)]
    if tables:
        found.append(table_optimizer(tables, rate))
    return found
