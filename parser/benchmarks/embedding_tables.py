"""Vectors of words and the like, of which a batch reads few."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.optim import Adam, Optimizer, SparseAdam


def sparse_table(entries: int, width: int) -> nn.Embedding:
    """Its gradient has only the rows that were read, so that a step does not touch the others."""
    table = nn.Embedding(entries, width, sparse=True)
    nn.init.normal_(table.weight, std=0.1)
    return table


def table_optimizer(weights: Iterable[Tensor], rate: float) -> Optimizer:
    """Adam that changes only what was read."""
    return SparseAdam(list(weights), lr=rate)


def optimizers(network: nn.Module, rate: float) -> list[Optimizer]:
    """Adam for all that is trained; for sparse tables the one that changes only what was read."""
    tables = {part.weight for part in network.modules() if isinstance(part, nn.Embedding) and part.sparse}
    others = [weight for weight in network.parameters() if weight.requires_grad and weight not in tables]
    found: list[Optimizer] = [Adam(others, lr=rate, fused=True)]
    if tables:
        found.append(table_optimizer(tables, rate))
    return found
