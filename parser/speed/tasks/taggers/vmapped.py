"""A BiLSTM that is written for one sentence, and vectorized over padded sentences by `torch.func.vmap`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.networks.bilstm import bilstm_padded
from parser.speed.tasks.hand_batched_bilstm import PADDED_TOGETHER
from parser.speed.tasks.taggers.lstm_steps import lstm_cell


def bilstm_vmapped(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other."""
    return bilstm_padded(lstm, inputs, lengths, PADDED_TOGETHER, _layer)


def _layer(inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """[frames, batch, hidden] inputs: [frames, batch, in]"""
    return torch.func.vmap(partial(_read, weights), in_dims=1, out_dims=1)(inputs)


def _read(weights: Sequence[Tensor], vectors: Tensor) -> Tensor:
    """[frames, hidden] The states of one sentence. weights: those of the input, of the recurrence, and two
    biases, the second of which is zero; vectors: [frames, in]."""
    weight_in, weight, bias, _ = weights
    hidden = memory = vectors.new_zeros(weight.shape[1])
    states = []
    for of_input in F.linear(vectors, weight_in, bias).unbind():  # [4 * hidden]
        hidden, memory = lstm_cell(of_input, weight, hidden, memory)
        states.append(hidden)
    return torch.stack(states)
