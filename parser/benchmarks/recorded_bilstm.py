"""A bidirectional LSTM in a graph of operations. Its parameters are those of an `nn.LSTM`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.operations.lstm import Grain, LSTMTemplates, lstm_templates
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Value, Writer
from parser.networks.bilstm import DIRECTIONS, weights_of


class RecordedBiLSTM:
    """A BiLSTM that is recorded in a graph, or in a template for sequences of one length."""

    def __init__(self, lstm: nn.LSTM, grain: Grain):
        self._layers = [
            [
                lstm_templates(*weights_of(lstm, layer, direction), grain, values=2 if layer else 1)
                for direction in DIRECTIONS
            ]
            for layer in range(lstm.num_layers)
        ]

    def read(self, writer: Writer, values: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        """The forward and the backward hidden states of the top layer, both in the order of the sequence."""
        inputs: tuple[Sequence[Value], ...] = (values,)
        for forward, backward in self._layers:
            rightward = writer.each(forward.project, inputs)[0]
            leftward = writer.each(backward.project, inputs)[0][::-1]
            inputs = (
                writer.chain(forward.first, forward.following, rightward)[0],
                writer.chain(backward.first, backward.following, leftward)[0][::-1],
            )
        left, right = inputs
        return left, right

    def read_together(
        self, graph: Graph, sequences: Sequence[Sequence[Value]]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """As `read` for many sequences, recorded step by step, as in manual batching."""
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
    """The hidden states of several recurrences, in the order of `gates`.

    places: the positions of each one.
    """
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


def end_positions(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The positions of the first and of the last frame of each sequence, [sequences] each."""
    last = torch.tensor(lengths).cumsum(0) - 1
    return last - torch.tensor(lengths) + 1, last


def flat_tensor(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """[numbers] The concatenated sequences."""
    return to_device(torch.tensor(list(chain.from_iterable(sequences))), device)
