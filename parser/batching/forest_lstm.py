"""Forests, and LSTMs over them, level by level.

In a forest each node has at most one parent. Stacks whose operations are known are forests, and so are
sequences. The recurrence is that of a StackLSTM (Dyer et al. 2015, equation 1; Ding & Koehn 2019, section 2):
the previous state is the state of the parent node, the row below on the stack. Because levels are small, the
backward pass is written by hand: it computes the gradient of the recurrent weights by one matrix product over
all levels at the end. Elementwise work that does not depend on the level is done for all nodes at once. On
CUDA, the fused cell does it: a level then takes four kernels forward and four backward. `d_x` is the gradient
with respect to x."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.device import all_to_device
from parser.batching.functional import add_product, dropout, linear, times_transposed, transposed_times
from parser.batching.lstm import (
    activate_,
    activation_backward_,
    fused_cell,
    fused_cell_backward,
    has_fused_cell,
    input_parameters,
    recurrent_weight,
    tanh,
)
from parser.batching.ragged import slices_of


class Level(NamedTuple):
    """The nodes of one level, as positions in execution order."""

    nodes: slice
    parents: slice
    """The nodes of the previous level that have children; empty for level 0."""


@dataclass(frozen=True)
class Forest:
    """The nodes of a forest in execution order: by level, and within a level nodes with children first.

    parent: [nodes], for each position, the index of the parent within the `parents` of the level.
    """

    parent: Tensor
    levels: tuple[Level, ...]

    def to(self, device: torch.device) -> Forest:
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Forest:
        return replace(self, parent=function(self.parent))


class SortedForest(NamedTuple):
    """A forest, and the order into which its nodes were brought.

    order: [nodes], the node at each position; position: [nodes], the position of each node.

    >>> parent, depth = torch.tensor([-1, 0, 1, 0]), torch.tensor([0, 1, 2, 1])
    >>> SortedForest.of(parent, depth).order.tolist()
    [0, 1, 3, 2]
    """

    forest: Forest
    order: Tensor
    position: Tensor

    @classmethod
    def of(cls, parent: Tensor, depth: Tensor) -> SortedForest:
        """Sort the nodes of a forest, on the host.

        parent: [nodes], -1 for a root; depth: [nodes], 0 for a root, else the depth of the parent + 1.
        """
        has_child = torch.zeros(len(parent), dtype=torch.bool)
        has_child[parent[parent >= 0]] = True
        order = torch.from_numpy(np.lexsort([(~has_child).numpy(), depth.numpy()]))
        position = torch.empty_like(order)
        position[order] = torch.arange(len(order))
        sizes = torch.bincount(depth)
        parent_counts = torch.bincount(depth[has_child], minlength=len(sizes))
        level_starts = sizes.cumsum(0) - sizes
        start_above = level_starts[(depth[order] - 1).clamp(min=0)]
        parent_place = position[parent[order].clamp(min=0)] - start_above
        levels = tuple(levels_of(sizes.tolist(), parent_counts.tolist()))
        return cls(Forest(parent_place, levels), order, position)


def levels_of(sizes: Sequence[int], parent_counts: Sequence[int]) -> Iterator[Level]:
    """Yield the levels. sizes: the number of nodes of each level; parent_counts: the number with children."""
    start, parents = 0, slice(0, 0)
    for size, parent_count in zip(sizes, parent_counts, strict=True):
        yield Level(slice(start, start + size), parents)
        parents = slice(start, start + parent_count)
        start += size


@dataclass(frozen=True)
class StackForest:
    """The forest of states in a batch of stacks whose operations are known.

    Node 0 is the first row of a stack. Node t + 1 is the row that step t writes. All tensors are
    [batch, steps + 1].

    >>> read, move = torch.tensor([[PUSH, PUSH, POP, PUSH]]).unbind(2)  # [batch, steps]
    >>> StackForest.of(read, move).top.tolist()
    [[0, 1, 2, 1, 4]]
    """

    parent: Tensor
    """The node below each node in its stack; -1 for node 0."""
    top: Tensor
    """The node on top before each step and, in the last column, after all steps."""
    depth: Tensor
    """The height of each node in its stack, 0 for node 0."""
    is_node: Tensor
    """bool; False if the row that a step writes is never read, such as the row of a pop."""

    @classmethod
    def of(cls, read: Tensor, move: Tensor) -> StackForest:
        """Follow the operations, without the push of the first row.

        read, move: [batch, steps], see `StackOperation`.
        """
        batch, steps = read.shape
        parent = read.new_full((batch, steps + 1), -1)
        top = read.new_zeros(batch, steps + 1)
        depth = read.new_zeros(batch, steps + 1)
        rows = read.new_zeros(batch, steps + 2)
        pointer = read.new_zeros(batch)
        for step in range(steps):
            previous = pointer - read[:, step]
            parent[:, step + 1] = rows.gather(1, previous[:, None]).squeeze(1)
            depth[:, step + 1] = previous + 1
            rows.scatter_(1, previous[:, None] + 1, step + 1)
            pointer = pointer + move[:, step]
            top[:, step + 1] = rows.gather(1, pointer[:, None]).squeeze(1)
        written_to_top = move == 1 - read
        first = torch.ones(batch, 1, dtype=torch.bool, device=read.device)
        return cls(parent, top, depth, torch.cat([first, written_to_top], dim=1))


def forest_lstm(gates: Tensor, weight: Tensor, forest: Forest) -> Tensor:
    """Return the hidden states [nodes, hidden] in execution order. Roots start from zero states.

    gates: [nodes, 4 * hidden], the contribution of the inputs and the bias to the gates, in torch's order
    (input, forget, cell, output); weight: [4 * hidden, hidden], the recurrent weights.
    """
    is_fused = has_fused_cell(gates) and forest.levels  # a forest may be empty
    function = _FusedForestLSTMFunction if is_fused else _UnfusedForestLSTMFunction
    return function.apply(gates, weight, forest)


class _UnfusedForestLSTMFunction(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, forest: Forest) -> Tensor:
        nodes, size = len(gates), weight.shape[1]
        active = gates.clone()  # [nodes, 4 * hidden] activated level by level
        cell, tanh_cell, hidden = gates.new_empty(3, nodes, size)  # each [nodes, hidden]
        for here, parents in forest.levels:
            gate, parent = active[here], forest.parent[here]
            if parents.stop > parents.start:
                # One product per parent, however many children it has.
                gate += times_transposed(hidden[parents], weight).index_select(0, parent)
            activate_(gate, size)
            input_gate, forget_gate, cell_gate, output_gate = gate.chunk(4, dim=1)
            torch.mul(input_gate, cell_gate, out=cell[here])
            if parents.stop > parents.start:
                cell[here].addcmul_(forget_gate, cell[parents].index_select(0, parent))
            tanh_cell[here] = tanh(cell[here])
            torch.mul(output_gate, tanh_cell[here], out=hidden[here])
        ctx.forest = forest
        ctx.save_for_backward(weight, active, cell, tanh_cell, hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        weight, active, cell, tanh_cell, hidden = ctx.saved_tensors
        forest, size = ctx.forest, weight.shape[1]
        input_gate, forget_gate, cell_gate, output_gate = active.chunk(4, dim=1)
        d_hidden = d_hidden.clone()
        d_cell = torch.zeros_like(cell)
        d_gates = torch.empty_like(active)
        cell_slope = output_gate * (1 - tanh_cell * tanh_cell)
        child_gradients, parent_rows = [], []
        for here, parents in reversed(forest.levels):
            d_cell[here].addcmul_(d_hidden[here], cell_slope[here])
            d_c, d_level, parent = d_cell[here], d_gates[here], forest.parent[here]
            d_input, d_forget, d_cell_gate, d_output = d_level.chunk(4, dim=1)
            torch.mul(d_c, cell_gate[here], out=d_input)
            torch.mul(d_c, input_gate[here], out=d_cell_gate)
            torch.mul(d_hidden[here], tanh_cell[here], out=d_output)
            if parents.stop == parents.start:
                d_forget.zero_()
                activation_backward_(d_level, active[here], size)
                continue
            torch.mul(d_c, cell[parents].index_select(0, parent), out=d_forget)
            activation_backward_(d_level, active[here], size)
            summed = d_gates.new_zeros(parents.stop - parents.start, d_level.shape[1])
            summed.index_add_(0, parent, d_level)
            d_hidden[parents] += times_transposed(summed, weight.T)
            d_cell[parents].index_add_(0, parent, d_c * forget_gate[here])
            child_gradients.append(summed)
            parent_rows.append(hidden[parents])
        if not child_gradients:
            return d_gates, torch.zeros_like(weight), None
        d_weight = transposed_times(torch.cat(child_gradients), torch.cat(parent_rows))
        return d_gates, d_weight, None


class _FusedForestLSTMFunction(Function):
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
        of_parents = slices_of([parents.stop - parents.start for _, parents in levels])
        shapes = d_hidden.shape, (of_parents[-1].stop, len(weight))
        d_cell, summed = _zeros(d_hidden, shapes)  # summed: over the children of each parent
        for (here, parents), these, states in reversed(list(zip(levels, of_parents, saved, strict=True))):
            d_gates, d_previous = fused_cell_backward(d_hidden[here], d_cell[here], *states)
            d_levels.append(d_gates)
            if these.stop > these.start:
                parent = forest.parent[here]
                its_sum = summed[these].index_add_(0, parent, d_gates)
                add_product(d_hidden[parents], its_sum, weight.T)
                d_cell[parents].index_add_(0, parent, d_previous)
        if not len(summed):
            return d_levels[0], torch.zeros_like(weight), None
        parent_rows = torch.cat([hidden[parents] for _, parents in levels])
        return torch.cat(d_levels[::-1]), transposed_times(summed, parent_rows), None


def _zeros(like: Tensor, shapes: Sequence[Sequence[int]]) -> Iterator[Tensor]:
    """Return tensors of zeros of these shapes, filled by one kernel."""
    sizes = [rows * columns for rows, columns in shapes]
    parts = like.new_zeros(sum(sizes)).split(sizes)
    return (part.view(shape) for part, shape in zip(parts, shapes, strict=True))


def lstm_over_forest(lstm: nn.LSTM, inputs: Tensor, forest: Forest) -> Tensor:
    """Return the hidden states [nodes, hidden] of the top layer. inputs: [nodes, input], in execution order.

    Layers run one after the other, so that each layer needs a single input product for all nodes. Dropout
    between layers is the same as in `torch.nn.LSTM`.

    >>> forest, order, position = SortedForest.of(torch.tensor([-1, 0, 0]), torch.tensor([0, 1, 1]))
    >>> lstm_over_forest(nn.LSTM(4, 8), torch.randn(3, 4)[order], forest)[position].shape
    torch.Size([3, 8])
    """
    hidden = forest_lstm(linear(inputs, *input_parameters(lstm, 0)), recurrent_weight(lstm, 0), forest)
    for layer in range(1, lstm.num_layers):
        inputs = dropout(hidden, lstm.dropout, lstm.training)
        gates = linear(inputs, *input_parameters(lstm, layer))
        hidden = forest_lstm(gates, recurrent_weight(lstm, layer), forest)
    return hidden
