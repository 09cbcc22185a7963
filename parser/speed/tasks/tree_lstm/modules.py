"""The parts of a Tree-LSTM as modules: for messages, for `torch.compile`, and for `torch.func.vmap`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parser.speed.tasks.tree_lstm.network import TreeLSTM


class Leaf(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.gates = network.leaf

    def forward(self, word: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden and the cell state, [..., hidden] each. word: [..., word_size]"""
        input_gate, cell_gate, output_gate = self.gates(word).chunk(3, dim=-1)
        return _states(input_gate.sigmoid() * cell_gate.tanh(), output_gate)


class Branch(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.gates, self.left, self.right = network.gates, network.forget_left, network.forget_right

    def forward(
        self, hidden_left: Tensor, cell_left: Tensor, hidden_right: Tensor, cell_right: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The hidden and the cell state of the parent. All: [..., hidden]."""
        gates = self.gates(torch.cat([hidden_left, hidden_right], dim=-1))
        cell_gate, input_gate, output_gate = gates.chunk(3, dim=-1)
        forgotten = (
            self.left(hidden_left).sigmoid() * cell_left + self.right(hidden_right).sigmoid() * cell_right
        )
        return _states(input_gate.sigmoid() * cell_gate.tanh() + forgotten, output_gate)


def _states(cell: Tensor, output_gate: Tensor) -> tuple[Tensor, Tensor]:
    return output_gate.sigmoid() * cell.tanh(), cell


class Score(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.scores = network.scores

    def forward(self, hidden: Tensor, cell: Tensor) -> Tensor:
        """[..., labels] hidden, cell: [..., hidden]; the cell state is not used."""
        return self.scores(hidden)
