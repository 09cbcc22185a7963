"""A biaffine scorer of arcs (Dozat & Manning 2017, section 2.2): how probable each head of each word is.

It reads the word vectors that the parser reads. In training its loss makes them better; where trees are
parsed, it says how probable their arcs are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import dropout, linear
from parser.batching.ragged import gather_rows
from parser.config.settings import ArcSettings

MAX_SCORES = 4_000_000
"""Of a group of sentences, padding included; a longer sentence is a group by itself."""
LENGTH_RATIO = 1.5
"""Of the longest to the shortest sentence of a group, at most."""
NO_HEAD = -1
"""The gold head of padding."""


class ArcScorer(nn.Module):
    """Scores of all words of a sentence, and of ROOT, as heads of each of its words.

    The score of head j for dependent i is h_j (U d_i + u), equation 2, of projected word vectors h and d.
    """

    def __init__(self, inputs: int, settings: ArcSettings, dropout: float, labels: int = 0):
        """inputs: size of a word vector. dropout: on word vectors and on their projections."""
        super().__init__()
        self.head = nn.Linear(inputs, settings.size)
        self.dependent = nn.Linear(inputs, settings.size)
        self.attention = nn.Linear(settings.size, settings.size)
        self.dropout, self.loss_weight = dropout, settings.loss_weight
        if settings.labels:
            self.label_head = nn.Linear(inputs, settings.size)
            self.label_dependent = nn.Linear(inputs, settings.size, bias=False)
            self.label = nn.Linear(settings.size, labels)
        self.has_labels = settings.labels

    def label_scores(self, table, dependents, heads):
        t = dropout(table, self.dropout, self.training)
        h = linear(t, self.label_head.weight, self.label_head.bias)
        d = linear(t, self.label_dependent.weight, None)
        joined = dropout(F.relu(h[heads] + d[dependents]), self.dropout, self.training)
        return linear(joined, self.label.weight, self.label.bias)

    def loss(self, table: Tensor, lengths: Tensor, heads: Tensor, labels=None) -> Tensor:
        """The summed cross entropy of the gold heads, with its weight.

        table: [W + 2, inputs], see `EncodedWords`. lengths: [sentences] in words, on the host. heads: [W] the
        head of each word, as its number in the sentence; 0 for ROOT.
        """
        gold = F.pad(heads, (0, 2), value=NO_HEAD)  # [W + 2]
        loss = table.new_zeros(())
        for rows, scores in self._scores(table, groups_of(lengths)):
            wanted = gold[rows[:, 1:]].flatten()  # [sentences * longest]
            loss = loss + F.cross_entropy(scores.flatten(0, 1), wanted, ignore_index=NO_HEAD, reduction="sum")
        if self.has_labels:
            words = len(table) - 2
            first = to_device((lengths.cumsum(0) - lengths).repeat_interleave(lengths), table.device)
            rows = torch.where(heads > 0, first + heads - 1, words)
            scores = self.label_scores(table, torch.arange(words, device=table.device), rows)
            loss = loss + F.cross_entropy(scores, labels, ignore_index=0, reduction="sum")
        return self.loss_weight * loss

    def log_probabilities(self, table: Tensor, lengths: Tensor) -> list[Tensor]:
        """Of each sentence [words, words + 1] The logarithm of the probability of each head of each word.

        Column 0 is ROOT. table, lengths: as in `loss`.
        """
        found: dict[int, Tensor] = {}
        groups = groups_of(lengths)
        for group, (_, scores) in zip(groups, self._scores(table, groups), strict=True):
            own = group.sentences.tolist()
            for sentence, length, each in zip(own, lengths[group.sentences].tolist(), scores, strict=True):
                found[sentence] = each[:length, : length + 1].log_softmax(1)
        return [found[sentence] for sentence in range(len(lengths))]

    def _scores(self, table: Tensor, groups: list[LengthGroup]) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each group its rows on the device, and [sentences, longest, longest + 1] the scores of all heads
        (the last dimension) of all words; -inf for padding and for a word itself."""
        heads = self._projection(self.head, table)  # [W + 2, size]
        dependents = linear(
            self._projection(self.dependent, table), self.attention.weight, self.attention.bias
        )
        padding = len(table) - 1
        for group in groups:
            rows = to_device(group.rows, table.device)
            own = gather_rows(dependents, rows[:, 1:])  # [sentences, longest, size]
            scores = own @ gather_rows(heads, rows).mT  # [sentences, longest, longest + 1]
            is_itself = torch.ones_like(scores[0], dtype=torch.bool).triu(1).tril(1)
            yield rows, scores.masked_fill(is_itself | (rows == padding)[:, None], -torch.inf)

    def _projection(self, layer: nn.Linear, table: Tensor) -> Tensor:
        """[W + 2, size]"""
        inputs = dropout(table, self.dropout, self.training)
        return dropout(F.relu(linear(inputs, layer.weight, layer.bias)), self.dropout, self.training)


class LengthGroup(NamedTuple):
    """Sentences of similar length, padded."""

    sentences: Tensor
    """[sentences] Their numbers in the batch."""
    rows: Tensor
    """[sentences, longest + 1] Table rows: ROOT and the words. The padding has the end of the buffer."""


def groups_of(lengths: Tensor) -> list[LengthGroup]:
    """lengths: [sentences] in words, on the host."""
    order = lengths.argsort(stable=True)
    offsets, words = lengths.cumsum(0) - lengths, int(lengths.sum())
    of_like_length = (lengths[order].log() / math.log(LENGTH_RATIO)).floor()
    groups = []
    for alike in order.split(of_like_length.unique_consecutive(return_counts=True)[1].tolist()):
        for sentences in alike.split(max(1, MAX_SCORES // int(lengths[alike].max()) ** 2)):
            word = torch.arange(int(lengths[sentences].max()))
            rows = torch.where(word < lengths[sentences, None], offsets[sentences, None] + word, words + 1)
            groups.append(LengthGroup(sentences, F.pad(rows, (1, 0), value=words)))
    return groups


class ArcTables(NamedTuple):
    cells: Tensor
    """[cells + 1, 3]"""
    start: Tensor
    """[W + 2]"""
    column: Tensor
    """[W + 2]"""

    FEATURES = 15

    def features(self, top: Tensor, below: Tensor, front: Tensor) -> Tensor:
        nothing = len(self.cells) - 1
        root = torch.full_like(top, len(self.start) - 2)
        pairs = [(top, below), (top, front), (front, top), (front, below), (top, root)]
        at = []
        for dependent, head in pairs:
            start, column = self.start[dependent], self.column[head]
            at.append(torch.where((start >= 0) & (column >= 0), start + column, nothing))
        return self.cells[torch.stack(at, dim=-1)].flatten(-2)


def arc_tables(scorer: ArcScorer, table: Tensor, lengths: Tensor, detach: bool) -> ArcTables:
    words = len(table) - 2
    start = torch.full((words + 2,), -1)
    column = torch.full((words + 2,), -1)
    column[words] = 0
    groups = groups_of(lengths)
    offsets = lengths.cumsum(0) - lengths
    parts, total = [], 0
    for group, (rows, scores) in zip(groups, scorer._scores(table, groups), strict=True):
        if detach:
            scores = scores.detach()
        B, L, _ = scores.shape
        own = group.rows[:, 1:]
        position = torch.arange(L)
        begin = total + torch.arange(B)[:, None] * L * (L + 1) + position * (L + 1)
        ok = own < words
        start[own[ok]] = begin[ok]
        column[own[ok]] = (position + 1).expand(B, L)[ok]
        total += B * L * (L + 1)
        is_padding = (rows[:, 1:] > words)[..., None]
        logs = scores.log_softmax(2)
        p = logs.exp().masked_fill(is_padding, 0.0)
        logs = logs.clamp(min=-8.0) / 4
        later_heads = p.flip(2).cumsum(2).flip(2) - p
        later_dependents = p.flip(1).cumsum(1).flip(1) - p
        parts.append(torch.stack([logs, later_heads, later_dependents], dim=3).flatten(0, 2))
    cells = torch.cat([*parts, table.new_zeros(1, 3)])
    return ArcTables(cells, to_device(start, table.device), to_device(column, table.device))
