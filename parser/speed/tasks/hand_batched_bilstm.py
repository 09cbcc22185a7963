"""A bidirectional LSTM over many sequences, batched by hand in simple ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import Tensor, nn

from parser.networks.bilstm import bilstm_by_levels, bilstm_packed, bilstm_padded

PADDED_TOGETHER = 64
"""Maximum number of sequences that are padded together, to the longest of them."""
BiLSTM = Callable[[nn.LSTM, Tensor, Sequence[int]], Tensor]
"""Maps inputs [frames, in], one sequence after the other, and lengths to states [frames, 2 * hidden]."""
HAND_BATCHED: Mapping[str, BiLSTM] = {
    "manual": bilstm_by_levels,
    "library": bilstm_packed,
    "padded": partial(bilstm_padded, together=PADDED_TOGETHER),
}
"""The functions that run a BiLSTM, by method."""
