"""A bidirectional LSTM over many sequences, batched by hand, in the simple ways of doing so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import Tensor, nn

from parser.networks.bilstm import bilstm_by_levels, bilstm_packed, bilstm_padded

PADDED_TOGETHER = 64
"""Sequences that are padded to the longest of them, at most."""
BiLSTM = Callable[[nn.LSTM, Tensor, Sequence[int]], Tensor]
"""From inputs [frames, in], one sequence after the other, and lengths to states [frames, 2 * hidden]."""
HAND_BATCHED: Mapping[str, BiLSTM] = {
    "manual": bilstm_by_levels,
    "library": bilstm_packed,
    "padded": partial(bilstm_padded, together=PADDED_TOGETHER),
}
"""By method."""
