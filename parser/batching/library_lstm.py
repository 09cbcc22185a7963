"""PyTorch's LSTMs in the precision of the process.

In bfloat16 on a CPU, the states inside are bfloat16, too. On a GPU, PyTorch would run cuDNN's LSTM in
float16, whose range is too small for gradients; there it has factors of TF32 instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from parser.batching.precision import present_precision

States: TypeAlias = tuple[Tensor, Tensor]
"""Hidden and cell states; in `run` [layers, batch, hidden] each."""


def outputs_of(lstm: nn.LSTM, inputs: Tensor | PackedSequence) -> Tensor:
    """The hidden states of the top layer, from zero states.

    inputs: [frames, batch, input], which gives [frames, batch, hidden]; or packed, which gives
    [rows, hidden].
    """
    return run(lstm, inputs)[0]


def run(
    lstm: nn.LSTM, inputs: Tensor | PackedSequence, states: States | None = None
) -> tuple[Tensor, States]:
    """As `outputs_of`, from any states; returns the last states as well."""
    data = inputs.data if isinstance(inputs, PackedSequence) else inputs
    with _precision_of(data):
        outputs, (hidden, cell) = lstm(inputs, states)
    top = outputs.data if isinstance(outputs, PackedSequence) else outputs
    return top.to(data.dtype), (hidden.to(data.dtype), cell.to(data.dtype))


def run_cell(inputs: Tensor, states: States, weights: Sequence[Tensor]) -> States:
    """`torch.lstm_cell`: the states after a frame. inputs: [batch, input]; states: [batch, hidden] each."""
    with _precision_of(inputs):
        hidden, cell = torch.lstm_cell(inputs, states, *weights)
    return hidden.to(inputs.dtype), cell.to(inputs.dtype)


def _precision_of(inputs: Tensor) -> AbstractContextManager[object]:
    on_cpu = inputs.device.type == "cpu" and inputs.dtype == torch.float32
    if on_cpu and present_precision() == "bfloat16":
        return torch.autocast("cpu", torch.bfloat16)
    return nullcontext()
