"""Scorers of arcs (Dozat & Manning 2017, section 2.2) and of their labels (Kiperwasser & Goldberg 2016, 5.1).

They read the same word vectors as the parser, and their losses are added to the parser's loss. In parsing,
they give the probabilities of arcs, change trees (`parser.parsing.reparsing`) and label new arcs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import dropout, linear
from parser.batching.like_length import groups_of_like_length
from parser.batching.ragged import gather_rows
from parser.networks.replay.batch import SoftTargets
from parser.treebank.sentence import NO_HEAD
from parser.treebank.vocabulary import UNKNOWN


class ArcScorer(nn.Module):
    """A biaffine scorer of how probable each head of each word is.

    It scores all words of a sentence, and ROOT, as heads of each word of the sentence.

    The score of head j for dependent i is h_j (U d_i + u), equation 2, with projected word vectors h and d.
    """

    def __init__(self, inputs: int, size: int, dropout: float):
        """inputs: size of the word vectors. size: size of their projections. dropout: applied to both."""
        super().__init__()
        self.head = nn.Linear(inputs, size)
        self.dependent = nn.Linear(inputs, size)
        self.attention = nn.Linear(size, size)
        self.dropout = dropout

    def loss(
        self, table: Tensor, lengths: Tensor, heads: Tensor, soft_heads: SoftTargets | None = None
    ) -> Tensor:
        """The summed cross entropy of the known gold heads, mixed with that of the teacher if there is one.

        table: [W + 2, inputs], see `EncodedWords`. lengths: [sentences] in words, on the host. heads: [W] the
        head of each word, as a word number in the sentence; 0 for ROOT, NO_HEAD if unknown.
        """
        gold = F.pad(heads, (0, 2), value=NO_HEAD)  # [W + 2]
        targets = soft_heads.map(partial(F.pad, pad=(0, 0, 0, 2))) if soft_heads else None  # [W + 2, k]
        loss = table.new_zeros(())
        for rows, padded in self._scores(table, groups_of(lengths)):
            scores, word = padded.flatten(0, 1), rows[:, 1:].flatten()  # [words, longest + 1], [words]
            losses = F.cross_entropy(scores, gold[word], ignore_index=NO_HEAD, reduction="none")
            if targets:
                of_words = SoftTargets(targets.choices[word], targets.weights[word])  # [words, k]
                losses = of_words.mixed(losses, scores, scores.logsumexp(1))
            loss = loss + losses.sum()
        return loss

    def log_probabilities(self, table: Tensor, groups: Sequence[LengthGroup]) -> Iterator[Tensor]:
        """[sentences, longest, longest + 1] For each group of sentences, the log probabilities of all heads
        (the last dimension) of all words. Column 0 is ROOT. table: as in `loss`."""
        for _, scores in self._scores(table, groups):
            yield scores.log_softmax(2)

    def probabilities(self, table: Tensor, lengths: Tensor) -> Tensor:
        """[W, longest + 1] The probabilities of all heads of all words; 0 after the end of a sentence.

        table, lengths: as in `loss`.
        """
        groups = groups_of(lengths)
        all_probabilities = table.new_zeros(len(table), int(lengths.max()) + 1)
        for group, logs in zip(groups, self.log_probabilities(table, groups), strict=True):
            rows = to_device(group.rows[:, 1:], table.device)
            all_probabilities[rows, : logs.shape[2]] = logs.exp()
        return all_probabilities[:-2]

    def _scores(self, table: Tensor, groups: Sequence[LengthGroup]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each group, its rows on the device and the scores [sentences, longest, longest + 1] of all
        heads (the last dimension) of all words; -inf for padding and for the word itself."""
        heads = self._projection(self.head, table)  # [W + 2, size]
        dependents = linear(
            self._projection(self.dependent, table), self.attention.weight, self.attention.bias
        )
        padding = len(table) - 1
        for group in groups:
            rows = to_device(group.rows, table.device)
            of_dependents = gather_rows(dependents, rows[:, 1:])  # [sentences, longest, size]
            scores = of_dependents @ gather_rows(heads, rows).mT  # [sentences, longest, longest + 1]
            is_itself = torch.ones_like(scores[0], dtype=torch.bool).triu(1).tril(1)
            yield rows, scores.masked_fill(is_itself | (rows == padding)[:, None], -torch.inf)

    def _projection(self, layer: nn.Linear, table: Tensor) -> Tensor:
        """[W + 2, size]"""
        inputs = dropout(table, self.dropout, self.training)
        return dropout(F.relu(linear(inputs, layer.weight, layer.bias)), self.dropout, self.training)


class LengthGroup(NamedTuple):
    """Sentences of similar length, padded."""

    sentences: Tensor
    """[sentences] The numbers of the sentences in the batch."""
    rows: Tensor
    """[sentences, longest + 1] Table rows of ROOT and the words. Padding: the end of the buffer."""


def groups_of(lengths: Tensor) -> list[LengthGroup]:
    """Divide sentences into groups of similar length. lengths: [sentences] in words, on the host."""
    offsets, words = lengths.cumsum(0) - lengths, int(lengths.sum())
    groups = []
    for numbers in groups_of_like_length(lengths.numpy()):
        sentences = torch.from_numpy(numbers)
        word = torch.arange(int(lengths[sentences].max()))
        rows = torch.where(word < lengths[sentences, None], offsets[sentences, None] + word, words + 1)
        groups.append(LengthGroup(sentences, F.pad(rows, (1, 0), value=words)))
    return groups


class LabelScorer(nn.Module):
    """One hidden layer over the two words of an arc."""

    def __init__(self, inputs: int, size: int, labels: int, dropout: float):
        """inputs: size of the word vectors. size: size of the hidden layer. dropout: applied to both."""
        super().__init__()
        self.head = nn.Linear(inputs, size)
        self.dependent = nn.Linear(inputs, size, bias=False)
        self.labels = nn.Linear(size, labels)
        self.dropout = dropout

    def forward(self, table: Tensor, lengths: Tensor, heads: Tensor) -> Tensor:
        """[W, labels] The scores of the labels of the arcs from `heads` [W] to all words.

        table: [W + 2, inputs], see `EncodedWords`. lengths: [sentences] in words, on the host. heads: word
        numbers in the sentence; 0 for ROOT.
        """
        vectors = dropout(table, self.dropout, self.training)
        as_heads = linear(vectors, self.head.weight, self.head.bias)  # [W + 2, size]
        as_dependents = linear(vectors[:-2], self.dependent.weight)  # [W, size]
        starts = to_device((lengths.cumsum(0) - lengths).repeat_interleave(lengths), heads.device)
        rows = torch.where(heads > 0, starts + heads - 1, len(heads))  # [W] ROOT follows the words
        return self._output(gather_rows(as_heads, rows) + as_dependents)

    def of_words(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """[W + 2, size] each: what words add to the hidden layer as heads, and as dependents."""
        return linear(table, self.head.weight, self.head.bias), linear(table, self.dependent.weight)

    def _output(self, hidden: Tensor) -> Tensor:
        hidden = dropout(F.relu(hidden), self.dropout, self.training)
        return linear(hidden, self.labels.weight, self.labels.bias)

    def loss(self, table: Tensor, lengths: Tensor, heads: Tensor, labels: Tensor) -> Tensor:
        """The summed cross entropy of the gold labels [W]. Unknown labels, and labels of unknown heads, are
        ignored."""
        scores = self(table, lengths, heads)
        return F.cross_entropy(scores, labels, ignore_index=UNKNOWN, reduction="sum")
