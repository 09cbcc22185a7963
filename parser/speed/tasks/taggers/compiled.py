"""A BiLSTM whose cell is compiled by PyTorch, once for all numbers of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn

from parser.speed.tasks.taggers.lstm_steps import Cell, bilstm_by_steps, lstm_cell


def bilstm_compiled(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other.

    The loop over steps is not compiled: its length differs by batch, so every length would be compiled.
    `nn.LSTM` is not compiled either: `torch.compile` leaves it unchanged.
    """
    return bilstm_by_steps(lstm, inputs, lengths, _compiled_cell())


@cache
def _compiled_cell() -> Cell:
    """The one compiled cell of a process. PyTorch compiles it when it is called."""
    return torch.compile(lstm_cell, dynamic=True)
