"""One LSTM layer over a forest by the fused cell: on CUDA a level takes four kernels, and four backward.

It computes what `forest_lstm` describes. The states of a level are tensors of their own, since the fused cell
makes them; the parents of a level are the first nodes of the level before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.forest import Forest
from parser.batching.fused_lstm_cell import fused_cell, fused_cell_backward
from parser.batching.product import add_product, times_transposed, transposed_times


class FusedForestLSTMFunction(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, forest: Forest) -> Tensor:
        """gates: [nodes, 4 * hidden]; weight: [4 * hidden, hidden]."""
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        previous_cells, actives = [], []
        for here, parents in forest.levels:
            if hidden:
                count, parent = parents.stop - parents.start, forest.parent[here]
                # One product per parent, however many children it has.
                of_parents = times_transposed(hidden[-1][:count], weight).index_select(0, parent)
                previous = cells[-1][:count].index_select(0, parent)
            else:
                zeros = gates.new_zeros(here.stop, sum(weight.shape))
                of_parents, previous = zeros.split(list(weight.shape), dim=1)
            level = fused_cell(gates[here], of_parents, previous)
            hidden.append(level.hidden)
            cells.append(level.cell)
            previous_cells.append(previous)
            actives.append(level.active)
        ctx.forest = forest
        result = torch.cat(hidden)
        ctx.save_for_backward(weight, result, *previous_cells, *cells, *actives)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        weight, hidden, *by_level = ctx.saved_tensors
        forest: Forest = ctx.forest
        levels, count = forest.levels, len(forest.levels)
        saved = list(zip(by_level[:count], by_level[count : 2 * count], by_level[2 * count :], strict=True))
        d_hidden = d_hidden.clone()
        d_levels: list[Tensor] = []
        places = _places([parents.stop - parents.start for _, parents in levels])
        shapes = d_hidden.shape, (places[-1].stop, len(weight))
        d_cell, summed = _zeros(d_hidden, shapes)  # the latter: over the children of each parent
        for (here, parents), place, states in reversed(list(zip(levels, places, saved, strict=True))):
            d_gates, d_previous = fused_cell_backward(d_hidden[here], d_cell[here], *states)
            d_levels.append(d_gates)
            if place.stop > place.start:
                parent = forest.parent[here]
                own = summed[place].index_add_(0, parent, d_gates)
                add_product(d_hidden[parents], own, weight.T)
                d_cell[parents].index_add_(0, parent, d_previous)
        if not len(summed):
            return d_levels[0], torch.zeros_like(weight), None
        parent_rows = torch.cat([hidden[parents] for _, parents in levels])
        return torch.cat(d_levels[::-1]), transposed_times(summed, parent_rows), None


def _zeros(like: Tensor, shapes: Sequence[Sequence[int]]) -> Iterator[Tensor]:
    """Tensors of these shapes, filled by one kernel."""
    sizes = [rows * columns for rows, columns in shapes]
    parts = like.new_zeros(sum(sizes)).split(sizes)
    return (part.view(shape) for part, shape in zip(parts, shapes, strict=True))


def _places(sizes: list[int]) -> list[slice]:
    """Where parts of these sizes lie, one after the other."""
    return [slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0))]
