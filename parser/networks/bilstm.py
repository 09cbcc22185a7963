"""A bidirectional LSTM: in a graph of operations, batched by hand, and the library's.

All three share the library's parameters, but for its second bias, which is left at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor, nn

from parser.batching.forest import Forest
from parser.batching.operations.graph import Graph
from parser.batching.operations.writer import Value
from parser.batching.product import linear
from parser.batching.transfer import to_device
from parser.networks.dropout import dropout
from parser.networks.forest_lstm import forest_lstm
from parser.networks.lstm_operations import Grain, LSTMTemplates, lstm_templates
from parser.treebank.batches import cut_by_words

DIRECTIONS = ("", "_reverse")
FRAMES_TOGETHER = 100_000
"""Frames that the library's LSTM reads at a time, counted as if all sequences were as long as the longest:
what it keeps of them is bounded."""


def bilstm(inputs: int, hidden: int, layers: int, dropout: float = 0.0) -> nn.LSTM:
    """hidden: each way; dropout: between the layers."""
    lstm = nn.LSTM(inputs, hidden, layers, bidirectional=True, dropout=dropout if layers > 1 else 0.0)
    for name, weight in lstm.named_parameters():
        if name.startswith("bias_hh"):
            weight.requires_grad_(False).zero_()
    return lstm


def _weights(lstm: nn.LSTM, layer: int, direction: str) -> tuple[Tensor, Tensor, Tensor]:
    names = (f"{name}_l{layer}{direction}" for name in ("weight_ih", "weight_hh", "bias_ih"))
    weight_in, weight, bias = (getattr(lstm, name) for name in names)
    return weight_in, weight, bias


class RecordedBiLSTM:
    """In a graph, sequence by sequence."""

    def __init__(self, lstm: nn.LSTM, grain: Grain):
        self._layers = [
            [
                lstm_templates(*_weights(lstm, layer, direction), grain, values=2 if layer else 1)
                for direction in DIRECTIONS
            ]
            for layer in range(lstm.num_layers)
        ]

    def read(self, graph: Graph, values: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        """The top layer's hidden states over a sequence, forward and backward, both in its order."""
        inputs: tuple[Sequence[Value], ...] = (values,)
        for forward, backward in self._layers:
            rightward = graph.each(forward.project, inputs)[0]
            leftward = graph.each(backward.project, inputs)[0][::-1]
            inputs = (
                graph.chain(forward.first, forward.following, rightward)[0],
                graph.chain(backward.first, backward.following, leftward)[0][::-1],
            )
        left, right = inputs
        return left, right

    def read_together(
        self, graph: Graph, sequences: Sequence[Sequence[Value]]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """As `read` for many sequences, recorded as one batches by hand: step by step."""
        inputs: tuple[Sequence[Value], ...] = (list(chain.from_iterable(sequences)),)
        lengths = list(map(len, sequences))
        starts = [0, *accumulate(lengths)][:-1]
        for forward, backward in self._layers:
            rightward = graph.each(forward.project, inputs)[0]
            leftward = graph.each(backward.project, inputs)[0]
            places = [range(start, start + length) for start, length in zip(starts, lengths, strict=True)]
            inputs = (
                _chains_together(graph, forward, rightward, places),
                _chains_together(graph, backward, leftward, [own[::-1] for own in places]),
            )
        left, right = inputs
        return left, right


def _chains_together(
    graph: Graph, layer: LSTMTemplates, gates: Sequence[Value], places: Sequence[range]
) -> list[Value]:
    """The hidden states of chains over `gates`, each at its gates' place. places: those of each chain."""
    found: list[Value] = [0] * len(gates)
    states = list(zip(*graph.each(layer.first, [[gates[own[0]] for own in places]]), strict=True))
    step = 0
    while places:
        for own, (hidden, _) in zip(places, states, strict=True):
            found[own[step]] = hidden
        step += 1
        running = [place for place, own in enumerate(places) if len(own) > step]
        places, states = [places[place] for place in running], [states[place] for place in running]
        if places:
            columns = [[gates[own[step]] for own in places], *zip(*states, strict=True)]
            states = list(zip(*graph.each(layer.following, columns), strict=True))
    return found


def over_sequences(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """[frames, 2 * hidden] Batched by hand: a call for each step of the longest sequence, without padding.

    inputs: [frames, in], one sequence after the other.
    """
    forests = [forest.to(inputs.device) for forest in _chains(torch.tensor(lengths))]
    places = [[to_device(which, inputs.device) for which in (each.order, each.position)] for each in forests]
    for layer in range(lstm.num_layers):
        if layer:
            inputs = dropout(inputs, lstm.dropout, lstm.training)
        states = []
        for forest, (order, position), direction in zip(forests, places, DIRECTIONS, strict=True):
            weight_in, weight, bias = _weights(lstm, layer, direction)
            gates = linear(inputs.index_select(0, order), weight_in, bias)
            hidden = forest_lstm(gates, weight, forest)
            states.append(hidden.index_select(0, position))
        inputs = torch.cat(states, dim=1)
    return inputs


def _chains(lengths: Tensor) -> tuple[Forest, Forest]:
    """Each frame upon the one before it, and upon the one after it."""
    frame = torch.arange(int(lengths.sum()))
    last = (lengths.cumsum(0) - 1).repeat_interleave(lengths)
    from_end = last - frame
    from_start = lengths.repeat_interleave(lengths) - 1 - from_end
    return (
        Forest.of(torch.where(from_start > 0, frame - 1, -1), from_start),
        Forest.of(torch.where(from_end > 0, frame + 1, -1), from_end),
    )


def over_sequences_by_library(lstm: nn.LSTM, inputs: Tensor, lengths: Sequence[int]) -> Tensor:
    """As `over_sequences`, by the library's LSTM; some sequences after the others, if many or long."""
    all_lengths, found = torch.tensor(lengths), []
    groups = cut_by_words(torch.arange(len(lengths)), list(lengths), FRAMES_TOGETHER)
    own_inputs = inputs.split([int(all_lengths[rows].sum()) for rows in groups])
    for rows, own in zip(groups, own_inputs, strict=True):
        # Found on the host: a mask on the device would make it wait.
        order, running = _packing(all_lengths[rows])
        places, back = (to_device(which, inputs.device) for which in (order, order.argsort()))
        packed = nn.utils.rnn.PackedSequence(own.index_select(0, places), running)
        found.append(lstm(packed)[0].data.index_select(0, back))
    return torch.cat(found)


def _packing(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """How `PackedSequence` wants the frames of sequences that lie one after the other.

    [frames] The first frames of all, the longest sequence's ahead, then the second frames, ...; and [steps]
    how many there are of each.
    """
    longest_first = lengths.argsort(descending=True, stable=True)
    start = (lengths.cumsum(0) - lengths)[longest_first]
    step = torch.arange(int(lengths.max()))[:, None]
    exists = step < lengths[longest_first]  # [steps, sequences]
    return (start + step)[exists], exists.sum(1)


def ends(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The places of the first and of the last frame of each sequence, [sequences] each."""
    last = torch.tensor(lengths).cumsum(0) - 1
    return last - torch.tensor(lengths) + 1, last


def flat(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """[numbers] One sequence after the other."""
    return to_device(torch.tensor(list(chain.from_iterable(sequences))), device)
