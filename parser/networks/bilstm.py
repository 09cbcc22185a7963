"""Bidirectional LSTMs over sequences of different lengths: with our own batching, or with PyTorch's layers
over padded or packed sequences.

All of them use the parameters of a `torch.nn.LSTM`. Its second bias stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.forest_lstm import SortedForest, forest_lstm
from parser.batching.functional import dropout, linear, present_precision
from parser.batching.lstm import lstm_with_dropout, outputs_of, run_layer
from parser.batching.ragged import Padding, Ragged, flatten
from parser.networks.settings import DIRECTIONS
from parser.treebank.batches import split_by_words

LEAST_PADDED_STEPS = 8
"""Training on a CPU pads sequences only if the longest has at least this many steps: our steps cost more than
PyTorch's, but PyTorch's calls cost more than ours (`scripts/studies/batching/measure_bilstm.py`)."""
MOST_PADDING = 800
"""It also requires that padded sequences in an average step, times the hidden size, are at most this many."""
Layer = Callable[[Tensor, Sequence[Tensor]], Tensor]
"""Runs one layer over padded sequences in one direction, like `run_layer`."""
MAX_PADDED_FRAMES = 100_000
"""Maximum number of frames, padding included, that `bilstm_packed` processes at a time, to bound memory."""


def bilstm(inputs: int, hidden: int, layers: int, dropout: float = 0.0) -> nn.LSTM:
    """Create a bidirectional LSTM. hidden: size of each direction. dropout: between the layers."""
    lstm = lstm_with_dropout(inputs, hidden, layers, dropout, bidirectional=True)
    for name, weight in lstm.named_parameters():
        if name.startswith("bias_hh"):
            weight.requires_grad_(False).zero_()
    return lstm


def weights_of(lstm: nn.LSTM, layer: int, direction: str) -> tuple[Tensor, Tensor, Tensor]:
    """The input weight, recurrent weight and bias of one layer in one direction."""
    names = (f"{name}_l{layer}{direction}" for name in ("weight_ih", "weight_hh", "bias_ih"))
    weight_in, weight, bias = (getattr(lstm, name) for name in names)
    return weight_in, weight, bias


def run_bilstm(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] Run the LSTM in the fastest way on the device. inputs: [frames, in]."""
    if torch.is_grad_enabled() and not inputs.is_cuda:
        run = bilstm_padded if _is_better_padded(lengths, lstm.hidden_size) else bilstm_by_levels
        return run(lstm, inputs, lengths)
    if len(lengths) == 1:
        return outputs_of(lstm, inputs[:, None])[:, 0]
    return bilstm_packed(lstm, inputs, lengths)


def _is_better_padded(lengths: Sequence[int], hidden: int) -> bool:
    """Whether to pad in training on a CPU. Not with bfloat16, which PyTorch would use for states, too."""
    steps = max(lengths)
    padding = len(lengths) - sum(lengths) / steps  # sequences, in a step
    return (
        present_precision() != "bfloat16" and steps >= LEAST_PADDED_STEPS and padding * hidden <= MOST_PADDING
    )


def bilstm_by_levels(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] Run the LSTM without padding, with one cell call for each step and direction.

    inputs: [frames, in], one sequence after the other.
    """
    device = inputs.device
    chains = [
        (chain.forest.to(device), to_device(chain.order, device), to_device(chain.position, device))
        for chain in _chains(torch.tensor(lengths))
    ]
    for layer in range(lstm.num_layers):
        if layer:
            inputs = dropout(inputs, lstm.dropout, lstm.training)
        states = []
        for (forest, order, position), direction in zip(chains, DIRECTIONS, strict=True):
            weight_in, weight, bias = weights_of(lstm, layer, direction)
            gates = linear(inputs.index_select(0, order), weight_in, bias)
            hidden = forest_lstm(gates, weight, forest)
            states.append(hidden.index_select(0, position))
        inputs = torch.cat(states, dim=1)
    return inputs


def _chains(lengths: Tensor) -> tuple[SortedForest, SortedForest]:
    """Forests of chains: each sequence from its first frame to its last, and from its last to its first."""
    frame = torch.arange(int(lengths.sum()))
    last = (lengths.cumsum(0) - 1).repeat_interleave(lengths)
    from_end = last - frame
    from_start = lengths.repeat_interleave(lengths) - 1 - from_end
    return (
        SortedForest.of(torch.where(from_start > 0, frame - 1, -1), from_start),
        SortedForest.of(torch.where(from_end > 0, frame + 1, -1), from_end),
    )


class _PaddedDirection(NamedTuple):
    """The positions of the frames in padded groups of sequences that are read in one direction."""

    frames: list[Tensor]
    """For each group, [longest, sequences] the frame at each position; 0 for padding."""
    rows: Tensor
    """[frames] The row of each frame in the states of all groups."""

    def states(self, run: Layer, weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
        """[frames, hidden] The states of one layer. inputs: [frames, in]."""
        groups = [
            run(inputs.index_select(0, block.flatten()).view(*block.shape, -1), weights)
            for block in self.frames
        ]
        return flatten(groups).index_select(0, self.rows)


def bilstm_padded(
    lstm: nn.LSTM,
    inputs: Tensor,
    lengths: Sequence[int],
    together: int | None = None,
    run: Layer | None = None,
) -> Tensor:
    """[frames, 2 * hidden] Run the LSTM with PyTorch's layers over padded sequences; on CUDA, packed ones.

    The backward direction reads each sequence from its last frame, so that padding comes at the end there,
    too. inputs: [frames, in], one sequence after the other. together: number of sequences of similar length
    that are padded to the longest of them; None for all. run: how to run a layer; None for PyTorch's way.
    """
    if run is None and inputs.is_cuda:
        # cuDNN needs the weights in one block. The block of an LSTM holds all layers and directions, so
        # the weights of one direction would be copied to a new block at every call.
        return bilstm_packed(lstm, inputs, lengths)
    run = run or run_layer
    directions = _padded_directions(torch.tensor(lengths), together, inputs.device)
    for layer in range(lstm.num_layers):
        if layer:
            inputs = dropout(inputs, lstm.dropout, lstm.training)
        weights = lstm.all_weights[len(DIRECTIONS) * layer : len(DIRECTIONS) * (layer + 1)]
        states = [
            each.states(run, of_direction, inputs)
            for each, of_direction in zip(directions, weights, strict=True)
        ]
        inputs = torch.cat(states, dim=1)
    return inputs


def _padded_directions(lengths: Tensor, together: int | None, device: torch.device) -> list[_PaddedDirection]:
    """The forward and the backward direction; sequences are ordered from the longest to the shortest."""
    longest_first = lengths.argsort(descending=True, stable=True)
    frames = Ragged(torch.arange(int(lengths.sum())), lengths).select(longest_first)
    padding = Padding.of(frames.lengths, together)
    sequence, step = frames.row_of_element(), frames.position_in_row()
    directions = []
    for step_read in (step, frames.lengths[sequence] - 1 - step):
        blocks = padding.spread(step_read, sequence, frames.values, fill=0)
        rows = torch.empty_like(sequence).index_copy_(0, frames.values, padding.row(step_read, sequence))
        directions.append(
            _PaddedDirection([to_device(block, device) for block in blocks], to_device(rows, device))
        )
    return directions


def bilstm_packed(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """Like `bilstm_by_levels`, but with `torch.nn.LSTM` over packed sequences, in groups of bounded size."""
    all_lengths, outputs = torch.tensor(lengths), []
    groups = split_by_words(torch.arange(len(lengths)), list(lengths), MAX_PADDED_FRAMES)
    inputs_of_groups = inputs.split([int(all_lengths[rows].sum()) for rows in groups])
    for rows, of_group in zip(groups, inputs_of_groups, strict=True):
        # Computed on the host, to avoid a synchronisation.
        order, batch_sizes = _packing(all_lengths[rows])
        indices = torch.stack([order, order.argsort()])
        packing, unpacking = to_device(indices, inputs.device)
        packed = nn.utils.rnn.PackedSequence(of_group.index_select(0, packing), batch_sizes)
        outputs.append(outputs_of(lstm, packed).index_select(0, unpacking))
    return torch.cat(outputs)


def _packing(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The order [frames] and the batch sizes [steps] of a `PackedSequence`.

    The order lists the first frames of all sequences, the longest sequence first, then the second frames, and
    so on.
    """
    longest_first = lengths.argsort(descending=True, stable=True)
    start = (lengths.cumsum(0) - lengths)[longest_first]
    step = torch.arange(int(lengths.max()))[:, None]
    exists = step < lengths[longest_first]  # [steps, sequences]
    return (start + step)[exists], exists.sum(1)
