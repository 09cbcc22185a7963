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
from parser.replay.batch import Compositions


class Composition(nn.Module):
    """g(head, dependent, transition) = tanh(W [head; dependent] + embedding of the transition).

    W is the same for all transitions, or one for each side of the head on which the dependent may be."""

    side: Tensor
    """[transitions + 1, sides] One-hot: which of the matrices each transition has."""

    def __init__(self, size: int, side: Tensor):
        """size: size of the vectors. side: as the attribute."""
        super().__init__()
        self.join = nn.Linear(2 * size, side.shape[1] * size, bias=False)
        self.register_buffer("side", side.to(self.join.weight.dtype), persistent=False)
        self.transitions = nn.Embedding(len(side), size)
        nn.init.normal_(self.transitions.weight, std=0.1)

    def forward(self, head: Tensor, dependent: Tensor, transition: Tensor) -> Tensor:
        """[n, size] head, dependent: [n, size]. transition: [n]; the results of `no_op` are not used."""
        of_sides = linear(torch.cat([head, dependent], dim=1), self.join.weight)
        return torch.tanh(own_side(of_sides, self.side[transition]) + self.transitions(transition))

    def replay(self, table: Tensor, compositions: Compositions) -> Tensor:
        """[rows + A, size] The table [rows, size], followed by the composed vectors of a batch."""
        of_transition = gather_rows(self.transitions.weight, compositions.transition)
        side = self.side.index_select(0, compositions.transition)
        return _Levels.apply(table, self.join.weight, of_transition, side, compositions)


def own_side(of_sides: Tensor, side: Tensor) -> Tensor:
    """[n, size] Products with the matrix of the own side. of_sides: [n, sides * size], side: [n, sides]."""
    return (of_sides.unflatten(1, (side.shape[1], -1)) * side[:, :, None]).sum(1)


class _Levels(Function):
    @staticmethod
    def forward(
        ctx: Any,
        table: Tensor,
        weight: Tensor,
        of_transition: Tensor,
        side: Tensor,
        compositions: Compositions,
    ) -> Tensor:
        """weight: [sides * size, 2 * size]; of_transition: [A, size]; side: [A, sides]."""
        rows = len(table)
        joined = table.new_empty(rows + len(of_transition), table.shape[1])
        joined[:rows] = table
        below = joined[rows:]
        for level in compositions.levels:
            parts = _pairs(joined, compositions.pairs[level])
            product = own_side(times_transposed(parts, weight), side[level])
            torch.tanh(product.add_(of_transition[level]), out=below[level])
        ctx.compositions = compositions
        ctx.save_for_backward(weight, joined, side)
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, joined, side = ctx.saved_tensors
        compositions, size = ctx.compositions, joined.shape[1]
        rows = len(joined) - len(compositions.pairs)
        gradient = gradient.clone()
        slope = 1 - joined[rows:].square()
        d_sum = gradient.new_empty(len(slope), size)
        d_sides = gradient.new_empty(len(slope), side.shape[1], size)
        for level in reversed(compositions.levels):
            torch.mul(gradient[rows:][level], slope[level], out=d_sum[level])
            torch.mul(d_sum[level][:, None], side[level][:, :, None], out=d_sides[level])
            d_pairs = times_transposed(d_sides[level].flatten(1), weight.T).reshape(-1, size)
            gradient.index_add_(0, compositions.pairs[level].flatten(), d_pairs)
        d_weight = transposed_times(d_sides.flatten(1), _pairs(joined, compositions.pairs))
        return gradient[:rows], d_weight, d_sum, None, None


def _pairs(joined: Tensor, rows: Tensor) -> Tensor:
    """[n, 2 * size] The vectors of heads and dependents, side by side. rows: [n, 2]."""
    return joined.index_select(0, rows.flatten()).view(len(rows), 2 * joined.shape[1])
