"""Which row of a batch's table of vectors each vector of its sentences has.

The table holds the words, ROOT, the buffer's end and, if the parser composes, what is composed, level by
level.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.forest import Forest
from parser.replay.batch import Compositions
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens


class VectorRows:
    """The rows of a batch's table of vectors: words, ROOT, the buffer's end, what is composed by level."""

    def __init__(self, tokens: Tokens, composed: Ragged):
        self._tokens, self._composed = tokens, composed
        self._head, self._dependent, self._transition, self._level, self._replaced = composed.values.unbind(1)
        self._order = self._level.argsort(stable=True)
        self._position = self._order.argsort()

    def row(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] vector: [..., n] numbers in their sentences [n]."""
        words, lengths = self._tokens.words, self._tokens.lengths[sentence]
        of_word = torch.where(vector > 0, self._tokens.numbers.offsets[sentence] + vector - 1, words)
        row = torch.where(vector > lengths, words + 1, of_word)
        is_composed = vector > lengths + 1
        row[is_composed] = words + 2 + self._position[self._number(vector, sentence)[is_composed]]
        return row

    def _number(self, vector: Tensor, sentence: Tensor) -> Tensor:
        """[..., n] Which of all that the batch composes."""
        return self._composed.offsets[sentence] + vector - self._tokens.lengths[sentence] - 2

    def compositions(self) -> Compositions:
        sentence = self._composed.row_of_element()
        ends = torch.bincount(self._level).cumsum(0).tolist() if len(self._level) else []
        forest, vectors = self._buffer()
        return Compositions(
            head=self.row(self._head, sentence)[self._order],
            dependent=self.row(self._dependent, sentence)[self._order],
            transition=self._transition[self._order],
            levels=tuple(map(slice, [0, *ends], ends)),
            buffer=forest,
            buffer_vectors=vectors[forest.order],
        )

    def _buffer(self) -> tuple[Forest, Tensor]:
        """Nodes of all words and ends by sentence, then of what replaces them; and their vectors' rows."""
        lengths = self._tokens.lengths
        sentence, place = front_places(lengths)
        depth = lengths[sentence] - place
        parent = torch.where(depth > 0, torch.arange(len(place)) + 1, -1)
        of_composed = self._composed.row_of_element()
        replaces = self._replaced > 0
        beside = self._front(of_composed, self._replaced)[replaces]
        forest = Forest.of(torch.cat([parent, parent[beside]]), torch.cat([depth, depth[beside]]))
        composed_rows = self._tokens.words + 2 + self._position
        return forest, torch.cat([front_rows(self._tokens), composed_rows[replaces]])

    def _front(self, sentence: Tensor, front: Tensor) -> Tensor:
        """[n] Which of all fronts, in the order of `front_places`; front: [n], from 1 on."""
        return self._tokens.numbers.offsets[sentence] + sentence + front - 1

    def buffer_node(self, front: Tensor, vector: Tensor, sentence: Tensor) -> Tensor:
        """[n] Of the fronts [n] of sentences [n], which the vectors [n] stand for."""
        lengths = self._tokens.lengths
        words_and_ends = self._tokens.words + len(lengths)
        replaces = (self._replaced > 0).long()
        node = self._front(sentence, front)
        is_composed = vector > lengths[sentence] + 1
        number = self._number(vector, sentence)[is_composed]
        node[is_composed] = words_and_ends + (replaces.cumsum(0) - 1)[number]
        return node


def front_places(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """[words + sentences] The sentence of every front, and its place there from 0 on.

    The last front of each sentence is that of the empty buffer. lengths: [sentences], on the host.
    """
    fronts = Ragged(torch.empty(int(lengths.sum()) + len(lengths)), lengths + 1)
    return fronts.row_of_element(), fronts.position_in_row()


def front_rows(tokens: Tokens) -> Tensor:
    """[words + sentences] Rows of the table of vectors for every front, in the order of `front_places`."""
    sentence, place = front_places(tokens.lengths)
    is_word = place < tokens.lengths[sentence]
    return torch.where(is_word, tokens.numbers.offsets[sentence] + place, tokens.words + 1)


def buffer_tokens(lengths: Tensor) -> Tensor:
    """[longest + 1, batch] Rows of the token table in the order of the buffers: the end, the last word, ...

    lengths: [batch]. A shorter sentence goes on with ends, which nobody reads.
    """
    frame = torch.arange(int(lengths.max()) + 1, device=lengths.device)[:, None]
    exists = (frame > 0) & (frame <= lengths)
    return torch.where(exists, lengths.cumsum(0) - frame, lengths.sum() + 1)
