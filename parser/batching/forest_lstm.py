"""One LSTM layer over a forest, level by level.

The recurrence of a StackLSTM (Dyer et al. 2015, equation 1; Ding & Koehn 2019, section 2) with the row below
on the stack in the place of the frame before. Written with its own backward pass: levels are small, so the
gradient of the recurrent weights is one product over all levels at the end, and what can be done for all
nodes at once is not done level by level.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.activations import tanh
from parser.batching.forest import Forest
from parser.batching.lstm_cell import activate_, through_activations_
from parser.batching.product import times_transposed, transposed_times


def forest_lstm(gates: Tensor, weight: Tensor, forest: Forest) -> Tensor:
    """Hidden states [nodes, hidden] of the nodes in running order.

    gates: [nodes, 4 * hidden], the inputs' part of the gates, bias included, in torch's order (input,
    forget, cell, output); weight: [4 * hidden, hidden], the recurrent weights. Roots stand on zeros.
    """
    return _ForestLSTM.apply(gates, weight, forest)


class _ForestLSTM(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, forest: Forest) -> Tensor:
        nodes, size = len(gates), weight.shape[1]
        active = gates.clone()  # [nodes, 4 * hidden] gates after their activations
        cell, squashed_cell, hidden = gates.new_empty(3, nodes, size)  # each [nodes, hidden]
        for here, parents in forest.levels:
            gate, parent = active[here], forest.parent[here]
            if parents.stop > parents.start:
                # Each parent is multiplied once, whatever the number of its children.
                gate += times_transposed(hidden[parents], weight).index_select(0, parent)
            activate_(gate, size)
            into, forget, new, out = gate.chunk(4, dim=1)
            torch.mul(into, new, out=cell[here])
            if parents.stop > parents.start:
                cell[here].addcmul_(forget, cell[parents].index_select(0, parent))
            squashed_cell[here] = tanh(cell[here])
            torch.mul(out, squashed_cell[here], out=hidden[here])
        ctx.forest = forest
        ctx.save_for_backward(weight, active, cell, squashed_cell, hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, hidden_gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, active, cell, squashed_cell, hidden = ctx.saved_tensors
        forest, size = ctx.forest, weight.shape[1]
        into, forget, new, out = active.chunk(4, dim=1)
        hidden_gradient = hidden_gradient.clone()
        cell_gradient = torch.zeros_like(cell)
        gate_gradient = torch.empty_like(active)
        cell_slope = out * (1 - squashed_cell * squashed_cell)
        child_gradients, parent_rows = [], []
        # at_x is the loss's gradient at x
        for here, parents in reversed(forest.levels):
            cell_gradient[here].addcmul_(hidden_gradient[here], cell_slope[here])
            at_cell, at_gate, parent = cell_gradient[here], gate_gradient[here], forest.parent[here]
            at_into, at_forget, at_new, at_out = at_gate.chunk(4, dim=1)
            torch.mul(at_cell, new[here], out=at_into)
            torch.mul(at_cell, into[here], out=at_new)
            torch.mul(hidden_gradient[here], squashed_cell[here], out=at_out)
            if parents.stop == parents.start:
                at_forget.zero_()
                through_activations_(at_gate, active[here], size)
                continue
            torch.mul(at_cell, cell[parents].index_select(0, parent), out=at_forget)
            through_activations_(at_gate, active[here], size)
            summed = gate_gradient.new_zeros(parents.stop - parents.start, at_gate.shape[1])
            summed.index_add_(0, parent, at_gate)
            hidden_gradient[parents] += times_transposed(summed, weight.T)
            cell_gradient[parents].index_add_(0, parent, at_cell * forget[here])
            child_gradients.append(summed)
            parent_rows.append(hidden[parents])
        if not child_gradients:
            return gate_gradient, torch.zeros_like(weight), None
        weight_gradient = transposed_times(torch.cat(child_gradients), torch.cat(parent_rows))
        return gate_gradient, weight_gradient, None
