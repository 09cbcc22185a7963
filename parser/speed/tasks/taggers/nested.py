"""A BiLSTM over PyTorch's nested tensors in the jagged layout, which support linear layers, not recurrence.

PyTorch's LSTM rejects nested tensors, and no operation selects the words at one place of all sentences. So
the steps run over the values of all words.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.speed.tasks.taggers.lstm_steps import bilstm_by_steps, lstm_cell


def bilstm_nested(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] inputs: [frames, in], one sequence after the other."""
    offsets = to_device(F.pad(torch.tensor(lengths).cumsum(0), (1, 0)), inputs.device)

    def project(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        sequences = torch.nested.nested_tensor_from_jagged(inputs, offsets)  # [sequences, (frames), in]
        return F.linear(sequences, weight, bias).values()

    return bilstm_by_steps(lstm, inputs, lengths, lstm_cell, project)
