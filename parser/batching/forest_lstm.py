"""One LSTM layer over a forest, level by level.

The recurrence of a StackLSTM (Dyer et al. 2015, equation 1; Ding & Koehn 2019, section 2): the previous state
is that of the parent node, the row below on the stack. Levels are small, hence its own backward pass: the
gradient of the recurrent weights is one matrix product over all levels at the end, and elementwise work that
does not depend on the level is done for all nodes at once. `d_x` is the gradient with respect to x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.activations import tanh
from parser.batching.forest import Forest
from parser.batching.fused_forest_lstm import FusedForestLSTMFunction
from parser.batching.fused_lstm_cell import has_fused_cell
from parser.batching.lstm_cell import activate_, activation_backward_
from parser.batching.product import times_transposed, transposed_times


def forest_lstm(gates: Tensor, weight: Tensor, forest: Forest) -> Tensor:
    """Hidden states [nodes, hidden], in the order of `forest`.

    gates: [nodes, 4 * hidden], the input contribution to the gates with the bias, in torch's order (input,
    forget, cell, output); weight: [4 * hidden, hidden], the recurrent weights. Roots start from zero states.
    """
    function = FusedForestLSTMFunction if has_fused_cell(gates) else _PlainForestLSTMFunction
    return function.apply(gates, weight, forest)


class _PlainForestLSTMFunction(Function):
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
