"""A bidirectional LSTM over many sequences, batched by hand, in the simple ways of doing so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.lstm import run_layer
from parser.networks.bilstm import bilstm_by_levels, bilstm_packed

PADDED_TOGETHER = 64
"""Sequences that are padded to the longest of them, at most."""
BiLSTM = Callable[[nn.LSTM, Tensor, Sequence[int]], Tensor]
"""From inputs [frames, in], one sequence after the other, and lengths to states [frames, 2 * hidden]."""
Layer = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""As `run_layer`: one layer over padded sequences in one direction."""


class _Padding(NamedTuple):
    """Where the frames of one direction lie in padded batches."""

    frames: list[Tensor]
    """[longest, sequences] of each batch: the frame at each place; 0 where there is none."""
    places: Tensor
    """[frames] The place of each frame, where the batches follow each other."""

    def states(self, run: Layer, weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
        """[frames, hidden] inputs: [frames, in]"""
        padded = [
            run(inputs.index_select(0, own.flatten()).view(*own.shape, -1), weights).flatten(0, 1)
            for own in self.frames
        ]
        return torch.cat(padded).index_select(0, self.places)


def bilstm_padded(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int], run: Layer = run_layer) -> Tensor:
    """[frames, 2 * hidden] PyTorch's LSTM over padded batches of sequences of similar lengths.

    Backwards, each sequence is read from its own last frame, so that padding follows it, too. inputs:
    [frames, in], one sequence after the other; run: another way to run a layer than PyTorch's.
    """
    paddings = [_padding(torch.tensor(lengths), backwards, inputs.device) for backwards in (False, True)]
    of_directions = iter(lstm.all_weights)
    for _ in range(lstm.num_layers):
        states = [padding.states(run, next(of_directions), inputs) for padding in paddings]
        inputs = torch.cat(states, dim=1)
    return inputs


def _padding(lengths: Tensor, backwards: bool, device: torch.device) -> _Padding:
    start = lengths.cumsum(0) - lengths
    places = torch.empty(int(lengths.sum()), dtype=torch.long)
    batches, filled = [], 0
    for batch in lengths.argsort(descending=True, stable=True).split(PADDED_TOGETHER):
        own, step = lengths[batch], torch.arange(int(lengths[batch].max()))[:, None]
        frames = start[batch] + (own - 1 - step if backwards else step)  # [longest, sequences]
        exists = step < own
        places[frames[exists]] = filled + exists.flatten().nonzero()[:, 0]
        batches.append(to_device(torch.where(exists, frames, 0), device))
        filled += frames.numel()
    return _Padding(batches, to_device(places, device))


HAND_BATCHED: Mapping[str, BiLSTM] = {
    "manual": bilstm_by_levels,
    "library": bilstm_packed,
    "padded": bilstm_padded,
}
"""By method."""
