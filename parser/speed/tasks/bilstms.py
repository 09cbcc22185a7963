"""Bidirectional LSTMs of several tasks: padded, and in a graph of operations.

Their parameters are those of an `nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.levels import Integers
from parser.batching.operations.cells import Grain, LSTMTemplates, lstm_templates
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Writer
from parser.batching.operations.writer import Value, Values
from parser.networks.bilstm import DIRECTIONS, bilstm_padded, weights_of

PADDED_TOGETHER = 64
"""Maximum number of sequences that are padded together, to the longest of them."""
BiLSTM = Callable[[nn.LSTM, Tensor, Sequence[int]], Tensor]
"""Maps inputs [frames, in], one sequence after the other, and lengths to states [frames, 2 * hidden]."""
bilstm_padded_together = partial(bilstm_padded, together=PADDED_TOGETHER)


def bilstm_products(frames: int, inputs: int, hidden: int) -> int:
    """Multiplications of one layer in both directions; the first steps need no recurrent product."""
    return 2 * 4 * hidden * (frames * inputs + (frames - 1) * hidden)


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
        """Like `read` for many sequences, recorded step by step as in manual batching."""
        inputs: tuple[Sequence[Value], ...] = (list(chain.from_iterable(sequences)),)
        lengths = np.array(list(map(len, sequences)))
        last = lengths.cumsum() - 1
        for forward, backward in self._layers:
            rightward, leftward = (graph.each(way.project, inputs)[0] for way in (forward, backward))
            inputs = (
                _chains_together(graph, forward, rightward, last - lengths + 1, lengths, 1),
                _chains_together(graph, backward, leftward, last, lengths, -1),
            )
        left, right = inputs
        return left, right


def _chains_together(
    graph: Graph, layer: LSTMTemplates, gates: Values, first: Integers, lengths: Integers, direction: int
) -> Values:
    """The hidden states of several recurrences, in the order of `gates`.

    first, lengths: [recurrences], the position of the first step, and the number of steps; direction: the
    difference from one position to the next, 1 or -1.
    """
    given, hidden = np.array(gates.numbers), np.empty(len(gates), np.int64)
    states = np.empty((2, len(lengths)), np.int64)  # the hidden and the cell state of each recurrence
    for step in range(lengths.max()):
        running = lengths > step
        positions = (first + direction * step)[running]
        template, before = (layer.following, states[:, running]) if step else (layer.first, ())
        states[:, running] = [new.numbers for new in graph.each(template, [given[positions], *before])]
        hidden[positions] = states[0, running]
    return Values(graph, hidden)


def end_positions(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The positions of the first and of the last frame of each sequence, [sequences] each."""
    last = torch.tensor(lengths).cumsum(0) - 1
    return last - torch.tensor(lengths) + 1, last


def flat_tensor(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """[numbers] The concatenated sequences."""
    return to_device(torch.tensor(list(chain.from_iterable(sequences))), device)
