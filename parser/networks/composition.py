"""Composition: the vector of a head with a new dependent (Dyer et al. 2015, section 3.2).

A composed vector depends on the vectors of the head and the dependent, but on no LSTM state. So for known
trajectories all composed vectors are computed first, level by level. As in `forest_lstm`, a custom backward
pass avoids the overhead of autograd at each level.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.functional import linear, times_transposed, transposed_times
from parser.batching.ragged import gather_rows
from parser.networks.replay.batch import Compositions


class Composition(nn.Module):
    """g(head, dependent, transition) = tanh(W [head; dependent] + embedding of the transition)."""

    def __init__(self, size: int, transitions: int):
        """size: size of the vectors. transitions: number of labelled transitions."""
        super().__init__()
        self.join = nn.Linear(2 * size, size, bias=False)
        self.transitions = nn.Embedding(transitions + 1, size)
        nn.init.normal_(self.transitions.weight, std=0.1)

    def forward(self, head: Tensor, dependent: Tensor, transition: Tensor) -> Tensor:
        """[n, size] Composed vectors. head, dependent: [n, size]. transition: [n]; `no_op` is not used."""
        joined = torch.cat([head, dependent], dim=1)
        return torch.tanh(linear(joined, self.join.weight) + self.transitions(transition))

    def replay(self, table: Tensor, compositions: Compositions) -> Tensor:
        """[rows + A, size] The table [rows, size], followed by the composed vectors of a batch."""
        of_transition = gather_rows(self.transitions.weight, compositions.transition)
        return _Levels.apply(table, self.join.weight, of_transition, compositions)


class _Levels(Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, weight: Tensor, of_transition: Tensor, compositions: Compositions
    ) -> Tensor:
        """weight: [size, 2 * size]; of_transition: [A, size]."""
        rows = len(table)
        joined = table.new_empty(rows + len(of_transition), table.shape[1])
        joined[:rows] = table
        below = joined[rows:]
        for level in compositions.levels:
            parts = _pairs(joined, compositions.pairs[level])
            torch.tanh(times_transposed(parts, weight).add_(of_transition[level]), out=below[level])
        ctx.compositions = compositions
        ctx.save_for_backward(weight, joined)
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, joined = ctx.saved_tensors
        compositions, size = ctx.compositions, weight.shape[0]
        rows = len(joined) - len(compositions.pairs)
        gradient = gradient.clone()
        slope = 1 - joined[rows:].square()
        d_sum = gradient.new_empty(len(slope), size)
        for level in reversed(compositions.levels):
            torch.mul(gradient[rows:][level], slope[level], out=d_sum[level])
            d_pairs = times_transposed(d_sum[level], weight.T).reshape(-1, size)
            gradient.index_add_(0, compositions.pairs[level].flatten(), d_pairs)
        d_weight = transposed_times(d_sum, _pairs(joined, compositions.pairs))
        return gradient[:rows], d_weight, d_sum, None


def _pairs(joined: Tensor, rows: Tensor) -> Tensor:
    """[n, 2 * size] The concatenated vectors of heads and dependents. rows: [n, 2]."""
    return joined.index_select(0, rows.flatten()).view(len(rows), 2 * joined.shape[1])
