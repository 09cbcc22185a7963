"""What is computed of sentences before the first transition: words, buffers, and what both add to scores.

Word vectors are computed once for words that are equal in all columns. The buffer's LSTM runs from the end of
each sentence to its first word; sentences are sorted by length and run in groups, without padding: a frame
of a group has a row for each sentence that is long enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.lstm import InferenceLSTM, LSTMStates
from parser.batching.ragged import Ragged
from parser.networks.stack_parser import StackParser
from parser.transitions.system import State, front_positions
from parser.treebank.vocabulary import Tokens

GROUP_ON_CPU = 256
"""Sentences that run together. In larger groups the gates of a frame do not fit into the cache."""


class Positions(NamedTuple):
    """Tensors [batch] or, for many steps, [steps, batch]."""

    top: Tensor
    """Row of S0 in the vector table (words, ROOT, end of the buffer)."""
    below: Tensor
    """Row of S1 in the vector table; that of ROOT if there is no S1."""
    front: Tensor
    """Index of the buffer's front among the fronts of all sentences, see `front_positions`."""

    @classmethod
    def of(cls, state: State, sentences: Tensor, words: Tensor | int) -> Positions:
        """sentences: [batch] sentence of each state. words: number of all words, which is the row of ROOT."""
        on_stack = torch.stack([state.top(), state.top(below=1)])
        top, below = torch.where(on_stack > 0, state.base + on_stack, words)
        return cls(top, below, state.base + state.front + sentences)


class WordVectors(NamedTuple):
    table: Tensor
    """[distinct words + 2, token] The last rows are those of ROOT and of the end of the buffer."""
    row: Tensor
    """[words + 2] The row of each word, of ROOT and of the end; on the host."""

    @classmethod
    def of(cls, network: StackParser, tokens: Tokens) -> WordVectors:
        """tokens: on the host. With a sentence encoder or a transformer all words are distinct."""
        return cls.with_tags(network, tokens)[0]

    @classmethod
    def with_tags(cls, network: StackParser, tokens: Tokens) -> tuple[WordVectors, list[Tensor]]:
        """As `of`, and for each predicted column [distinct words, lexicon] the scores of its values."""
        row = torch.arange(tokens.words)
        if network.tokens.sentence_encoder is None and network.tokens.transformer is None:
            tokens, row = distinct_words(tokens)
        root_and_end = torch.tensor([tokens.words, tokens.words + 1])
        table, tag_scores = network.encode(tokens.to(network.tokens.root.device))
        return cls(table, torch.cat([row, root_and_end])), tag_scores


def distinct_words(tokens: Tokens) -> tuple[Tokens, Tensor]:
    """The distinct words as one sentence, and the number there of each word [words]. On the host."""
    values = tokens.values
    number = torch.zeros(len(values), dtype=torch.long)
    for column in values.unbind(1):
        # Numbered anew for each column, so that the products stay small.
        _, number = (number * (int(column.max()) + 1) + column).unique(return_inverse=True)
    first = torch.zeros(int(number.max()) + 1, dtype=torch.long)
    first[number] = torch.arange(len(values))
    return Tokens(Ragged(values[first], torch.tensor([len(first)])), tokens.parts), number


@dataclass(frozen=True)
class Buffers:
    """The states after the end, in row 0, and after each word."""

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
        device = words.table.device
        # On a GPU all sentences run together, which needs the fewest kernels.
        layout = _Layout.of(lengths, GROUP_ON_CPU if device.type == "cpu" else len(lengths))
        word = to_device(torch.cat([words.row[-1:], words.row[layout.word]]), device)
        lstm = InferenceLSTM(network.buffer)
        states = _run(lstm, lstm.project(words.table), word, layout.groups)
        return cls(states, lstm.output(states), word, to_device(layout.row_of_front, device))

    def states_at(self, fronts: Tensor) -> LSTMStates:
        """A copy of the states at fronts [n]."""
        rows = self.row_of_front.index_select(0, fronts)
        return LSTMStates(self.states.hidden.index_select(0, rows), self.states.cell.index_select(0, rows))


class _Layout(NamedTuple):
    """On the host."""

    word: Tensor
    """[words] The word of each row but the first."""
    row_of_front: Tensor
    """[words + sentences]"""
    groups: list[list[int]]
    """For each group of sentences, the number of rows of each frame but the first."""

    @classmethod
    def of(cls, lengths: Tensor, size: int) -> _Layout:
        """size: sentences of a group."""
        rank = torch.empty_like(lengths)
        rank[lengths.argsort(descending=True, stable=True)] = torch.arange(len(lengths))
        sentence, position = front_positions(lengths)
        front = (position < lengths[sentence]).nonzero().squeeze(1)  # [words] the fronts that are words
        sentence, position = sentence[front], position[front]
        group, frame = rank[sentence] // size, lengths[sentence] - position
        order = torch.from_numpy(np.lexsort([rank[sentence].numpy(), frame.numpy(), group.numpy()]))
        row_of_front = torch.zeros(len(front) + len(lengths), dtype=torch.long)
        row_of_front[front[order]] = torch.arange(1, len(front) + 1)
        return cls(order, row_of_front, _sizes(group, frame))


def _sizes(group: Tensor, frame: Tensor) -> list[list[int]]:
    """For each group, the number of rows of each frame. group, frame: [words] of each row."""
    groups, frames = int(group.max()) + 1, int(frame.max()) + 1
    table = torch.bincount(group * frames + frame, minlength=groups * frames).view(groups, frames)
    return [[size for size in row if size] for row in table.tolist()]


def _run(lstm: InferenceLSTM, inputs: Tensor, word: Tensor, groups: list[list[int]]) -> LSTMStates:
    """inputs: [rows of the table, 4 * hidden], see `InferenceLSTM.project`; word: as in `Buffers`."""
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
