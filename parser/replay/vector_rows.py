"""The rows of a batch's vector table.

The table has the words of all sentences, ROOT, the end of the buffer and, with composition, the composed
vectors, level by level.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.forest import Forest
from parser.replay.batch import Compositions
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


class VectorRows:
    """Maps the vectors of a sentence, numbered as in `transitions.vector_numbers`, to rows of the table."""

    def __init__(self, tokens: Tokens, composed: Ragged):
        """composed: see `Examples.composed`."""
        self._tokens, self._composed = tokens, composed
        self._pairs = composed.values[:, :2].T  # [2, A] head and dependent of each composed vector
        self._transition, self._level, self._replaced = composed.values[:, 2:].unbind(1)
        self._order = self._level.argsort(stable=True)
        self._position = self._order.argsort()

    def row(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] Table rows of the vectors [..., n] of sentences [n]."""
        words, lengths = self._tokens.words, self._tokens.lengths[sentence]
        of_word = torch.where(vector > 0, self._tokens.numbers.offsets[sentence] + vector - 1, words)
        row = torch.where(vector > lengths, words + 1, of_word)
        is_composed = vector > lengths + 1
        row[is_composed] = words + 2 + self._position[self._number(vector, sentence)[is_composed]]
        return row

    def _number(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] The indices of composed vectors among those of the batch."""
        return self._composed.offsets[sentence] + vector - self._tokens.lengths[sentence] - 2

    def compositions(self) -> Compositions:
        """The composed vectors, ordered by level."""
        sentence = self._composed.row_of_element()
        ends = torch.bincount(self._level).cumsum(0).tolist() if len(self._level) else []
        forest, vectors = self._buffer()
        return Compositions(
            pairs=self.row(self._pairs, sentence)[:, self._order].T.contiguous(),
            transition=self._transition[self._order],
            levels=tuple(map(slice, [0, *ends], ends)),
            buffer=forest,
            buffer_vectors=vectors[forest.order],
        )

    def _buffer(self) -> tuple[Forest, Tensor]:
        """The forest of buffer states, and the table row [nodes] of each node's input.

        First the nodes of all words and ends, by sentence; then those of composed vectors that replace B0.
        """
        lengths = self._tokens.lengths
        sentence, position = front_positions(lengths)
        depth = lengths[sentence] - position
        parent = torch.where(depth > 0, torch.arange(len(position)) + 1, -1)
        of_composed = self._composed.row_of_element()
        replaces = self._replaced > 0
        replaced = self._front(of_composed, self._replaced)[replaces]
        forest = Forest.of(torch.cat([parent, parent[replaced]]), torch.cat([depth, depth[replaced]]))
        composed_rows = self._tokens.words + 2 + self._position
        return forest, torch.cat([front_rows(self._tokens), composed_rows[replaces]])

    def _front(self, sentence: Tensor, front: Tensor) -> Tensor:
        """[n] Indices, in the order of `front_positions`, of the buffer fronts [n] of sentences [n]."""
        return self._tokens.numbers.offsets[sentence] + sentence + front - 1

    def buffer_node(self, front: Tensor, vector: Tensor, sentence: Tensor) -> Tensor:
        """[n] Buffer nodes of the fronts [n] of sentences [n], whose vectors [n] may be composed."""
        lengths = self._tokens.lengths
        words_and_ends = self._tokens.words + len(lengths)
        replaces = (self._replaced > 0).long()
        node = self._front(sentence, front)
        is_composed = vector > lengths[sentence] + 1
        number = self._number(vector, sentence)[is_composed]
        node[is_composed] = words_and_ends + (replaces.cumsum(0) - 1)[number]
        return node


def front_positions(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """[words + sentences] The sentence of each possible buffer front, and its position there, from 0.

    A front is a word or, last in each sentence, the end of the buffer. lengths: [sentences], on the host.
    """
    fronts = Ragged(torch.empty(int(lengths.sum()) + len(lengths)), lengths + 1)
    return fronts.row_of_element(), fronts.position_in_row()


def front_rows(tokens: Tokens) -> Tensor:
    """[words + sentences] Table rows of all possible buffer fronts, in the order of `front_positions`."""
    sentence, position = front_positions(tokens.lengths)
    is_word = position < tokens.lengths[sentence]
    return torch.where(is_word, tokens.numbers.offsets[sentence] + position, tokens.words + 1)


def buffer_rows(lengths: Tensor, group: int | None = None) -> tuple[Tensor, ...]:
    """The table rows that buffers read, for each group of sentences [longest + 1, sentences].

    Each column starts with the end of the buffer, followed by the words from last to first; shorter sentences
    are padded with the end. lengths: [batch]. group: sentences in a group; None for a single group.
    """
    size = group or len(lengths)
    groups = zip(lengths.split(size), lengths.cumsum(0).split(size), strict=True)
    return tuple(_group_rows(own, ends, lengths.sum() + 1) for own, ends in groups)


def _group_rows(lengths: Tensor, ends: Tensor, end_row: Tensor) -> Tensor:
    """[longest + 1, sentences] ends: [sentences] row after the last word. end_row: row of the buffer end."""
    frame = torch.arange(int(lengths.max()) + 1, device=lengths.device)[:, None]
    is_word = (frame > 0) & (frame <= lengths)
    return torch.where(is_word, ends - frame, end_row)
