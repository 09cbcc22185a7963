"""The states of the LSTM over the words that are still in the buffers.

There is a state after the end of a sentence, and one after each of its words, from the last to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from parser.batching.device import to_device
from parser.batching.lstm import InferenceLSTM, LSTMStates
from parser.networks.stack_parser import StackParser, WordVectors
from parser.transitions.state import front_positions

GROUP_ON_CPU = 256
"""Sentences whose buffers run together. With more, the gates of a frame do not fit into the cache."""


@dataclass(frozen=True)
class Buffers:
    """The states after the end of the buffer, in row 0, and after each word.

    The LSTM runs from the end of each sentence to its first word; sentences are sorted by length and run in
    groups, without padding: a frame of a group has a row for each sentence that is long enough.
    """

    states: LSTMStates
    """[words + 1, layers * hidden]"""
    output: Tensor
    """[words + 1, hidden] The hidden states of the top layer."""
    word: Tensor
    """[words + 1] The row of the table of word vectors that each row has read."""
    row_of_front: Tensor
    """[words + sentences] The row of each front, see `front_positions`."""

    @classmethod
    def of(cls, network: StackParser, words: WordVectors, lengths: Tensor) -> Buffers:
        """lengths: [sentences] in words, on the host."""
        layout = _Layout.of(words, lengths)
        lstm = InferenceLSTM(network.buffer)
        states = _run(lstm, lstm.project(words.table), layout.word, layout.groups)
        return cls(states, lstm.output(states), layout.word, layout.row_of_front)


class _Layout(NamedTuple):
    word: Tensor
    """[words + 1] As in `Buffers`."""
    row_of_front: Tensor
    """[words + sentences] As in `Buffers`."""
    groups: list[list[int]]
    """For each group of sentences, the number of rows of each frame but the first."""

    @classmethod
    def of(cls, words: WordVectors, lengths: Tensor) -> _Layout:
        """lengths: [sentences] in words, on the host."""
        device = words.table.device
        # On a GPU all sentences run together, which needs the fewest kernels.
        size = GROUP_ON_CPU if device.type == "cpu" else len(lengths)
        rank = torch.empty_like(lengths)
        rank[lengths.argsort(descending=True, stable=True)] = torch.arange(len(lengths))
        sentence, position = front_positions(lengths)
        front = (position < lengths[sentence]).nonzero().squeeze(1)  # [words] the fronts that are words
        sentence, position = sentence[front], position[front]
        group, frame = rank[sentence] // size, lengths[sentence] - position
        order = torch.from_numpy(np.lexsort([rank[sentence].numpy(), frame.numpy(), group.numpy()]))
        row_of_front = torch.zeros(len(front) + len(lengths), dtype=torch.long)
        row_of_front[front[order]] = torch.arange(1, len(front) + 1)
        word = torch.cat([words.row[-1:], words.row[order]])
        return cls(to_device(word, device), to_device(row_of_front, device), _sizes(group, frame))


class FrontOutputs(NamedTuple):
    """Like `Buffers`, but by PyTorch's faster LSTM and without the states that only composition needs."""

    output: Tensor
    word: Tensor
    row_of_front: Tensor

    @classmethod
    def of(cls, network: StackParser, words: WordVectors, lengths: Tensor) -> FrontOutputs:
        """lengths: [sentences] in words, on the host."""
        layout = _Layout.of(words, lengths)
        inputs = words.table.index_select(0, layout.word)  # [words + 1, token]
        first, states = network.buffer(inputs[:1])  # [1, hidden], and [layers, hidden] each
        outputs = [first]
        groups = inputs[1:].split([sum(frames) for frames in layout.groups])
        for frames, of_group in zip(layout.groups, groups, strict=True):
            packed = PackedSequence(of_group, torch.tensor(frames))
            start = tuple(part[:, None].repeat(1, frames[0], 1) for part in states)
            outputs.append(network.buffer(packed, start)[0].data)
        return cls(torch.cat(outputs), layout.word, layout.row_of_front)


def _sizes(group: Tensor, frame: Tensor) -> list[list[int]]:
    """For each group, the number of rows of each frame. group, frame: [words] of each row."""
    groups, frames = int(group.max()) + 1, int(frame.max()) + 1
    table = torch.bincount(group * frames + frame, minlength=groups * frames).view(groups, frames)
    return [[size for size in row if size] for row in table.tolist()]


def _run(lstm: InferenceLSTM, inputs: Tensor, word: Tensor, groups: list[list[int]]) -> LSTMStates:
    """Run the LSTM. inputs: [table rows, 4 * hidden], see `InferenceLSTM.project`. word: as in `Buffers`."""
    states = lstm.zeros(len(word))
    end = states.between(0, 1)
    lstm.advance(inputs.index_select(0, word[:1]), end, end)
    start = 1
    for frames in groups:
        previous = LSTMStates(*(part.expand(frames[0], -1) for part in end))
        for size in frames:
            here = states.between(start, start + size)
            gates = inputs.index_select(0, word[start : start + size])
            lstm.advance(gates, previous.between(0, size), here)
            previous, start = here, start + size
    return states
