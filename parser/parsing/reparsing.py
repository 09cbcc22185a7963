"""Reparsing (Sagae & Lavie 2006): the tree that the parser and its scorer of arcs find together.

It is the projective tree with the greatest sum of the scorer's log probabilities, where the arcs of the
parser's own tree get a bonus. Arcs that the parser did not make get the label that the scorer of labels
finds best. Word vectors are read when a sentence is, the rest is done on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parser.batching.device import to_device
from parser.models.model import Model
from parser.networks.scorers import ArcScorer, LabelScorer, LengthGroup, groups_of
from parser.networks.stack_parser import WordVectors
from parser.parsing.constraints import SentenceConstraints
from parser.parsing.eisner import is_projective_tree, projective_trees
from parser.parsing.parsed_tree import Arcs

MAX_WORDS = 500
"""Longest sentence. Time grows with the cube of its words: 0.25 s for 500, 20 s for 2,000."""
Floats = NDArray[np.float32]


class SecondOpinion(NamedTuple):
    """The opinion of the scorers on a sentence of n words."""

    log_probabilities: Floats
    """[n, n + 1] The log probabilities of the heads of each word, the first of which is ROOT."""
    greatest: Floats
    """[n] The greatest log probability of each word."""
    table: Tensor
    """[W + 2, token] The word vectors of this sentence and others, from which labels are scored."""
    start: int
    """The row of the first word."""

    def among(self, possible: NDArray[np.bool_]) -> SecondOpinion:
        """The opinion if only some heads are possible; their probabilities sum to 1 for each word.

        possible: [n, n + 1] bool
        """
        logs = np.where(possible, self.log_probabilities, np.float32(-np.inf))
        logs -= np.logaddexp.reduce(logs, 1, keepdims=True)
        return self._replace(log_probabilities=logs, greatest=logs.max(1))

    def of_arcs(self, heads: Sequence[int]) -> Floats:
        """[n] The log probabilities of the arcs from `heads` [n]."""
        return self.log_probabilities[np.arange(len(heads)), heads]


class ArcsOfSentence(NamedTuple):
    """Arcs between the words of a sentence, which need not form a tree."""

    opinion: SecondOpinion
    words: Sequence[int]
    """The dependents, from 0."""
    heads: Sequence[int]
    """From 1; 0 for ROOT."""

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yield the table rows of head and dependent of each arc."""
        start, root = self.opinion.start, len(self.opinion.table) - 2
        for head, word in zip(self.heads, self.words, strict=True):
            yield start + head - 1 if head else root, start + word


@dataclass(frozen=True)
class Reparser:
    models: Sequence[Model]
    """The models of an ensemble that score arcs, at least one. The first scores labels for all. The bonus is
    the mean over the models that have one."""
    numbers: Sequence[int]
    """The number in the trees of each label of the first model."""

    @classmethod
    def of(cls, model: Model) -> Reparser | None:
        """The reparser of a parser or an ensemble; None if none of its models scores arcs."""
        scoring = [each for each in model.members if each.network.arcs]
        if not scoring:
            return None
        names = scoring[0].vocabulary.labels.strings
        return cls(scoring, [0, *map(model.vocabulary.labels.number, names)])

    @property
    def changes_trees(self) -> bool:
        """Whether reparsing can change trees, and not only probabilities."""
        return self._bonus is not None

    @torch.inference_mode()
    def opinions(self, lengths: Tensor, words: Sequence[WordVectors]) -> list[SecondOpinion | None]:
        """The opinion on each sentence; None if the sentence is longer than `MAX_WORDS`.

        lengths: [sentences] in words, on the host. words: the words as each model reads them.
        """
        tables = [each.table.index_select(0, to_device(each.row, each.table.device)) for each in words]
        groups = [
            LengthGroup(sentences[short], rows[short])
            for sentences, rows in groups_of(lengths)
            if (short := lengths[sentences] <= MAX_WORDS).any()
        ]
        of_models = (
            arcs.log_probabilities(table, groups) for arcs, table in zip(self._arcs, tables, strict=True)
        )
        of_groups = [
            (torch.stack(logs).mean(0).log_softmax(2) if len(logs) > 1 else logs[0]).float()
            for logs in zip(*of_models, strict=True)
        ]
        starts = (lengths.cumsum(0) - lengths).tolist()
        found: list[SecondOpinion | None] = [None] * len(lengths)
        for group, together in zip(groups, _on_host(of_groups), strict=True):
            greatest = together.max(2)
            own_lengths = lengths[group.sentences].tolist()
            for place, (sentence, length) in enumerate(
                zip(group.sentences.tolist(), own_lengths, strict=True)
            ):
                found[sentence] = SecondOpinion(
                    together[place, :length, : length + 1],
                    greatest[place, :length],
                    tables[0],
                    starts[sentence],
                )
        return found

    @torch.inference_mode()
    def reparse(
        self,
        opinions: Sequence[SecondOpinion],
        trees: Sequence[Arcs],
        constraints: Sequence[SentenceConstraints | None],
    ) -> list[Arcs]:
        """The trees that parser and scorers find together.

        trees: the parser's own, with the same numbers of labels. constraints: those of each sentence, whose
        opinion must be limited to possible heads. The parser's own tree stays if the new one exceeds limits
        more often.
        """
        found = list(trees)
        left: list[tuple[int, Floats]] = []
        for number, (opinion, tree) in enumerate(zip(opinions, trees, strict=True)):
            if self._doubts(opinion, tree):
                scores = self._scores(opinion, tree)
                heads = scores.argmax(1).tolist()
                if is_projective_tree(heads):  # no other tree has a greater sum
                    found[number] = tree._replace(heads=heads)
                else:
                    left.append((number, scores))
        for number, heads in _trees_of_greatest_sum(left):
            found[number] = trees[number]._replace(heads=heads)
        self._label(opinions, trees, found)
        for number, own in enumerate(constraints):
            if own and own.exceeded(found[number]) > own.exceeded(trees[number]):
                found[number] = trees[number]
        return [
            tree._replace(probabilities=_probabilities(opinion, old, tree)) if tree.probabilities else tree
            for opinion, old, tree in zip(opinions, trees, found, strict=True)
        ]

    def _doubts(self, opinion: SecondOpinion, tree: Arcs) -> bool:
        """Whether a better tree is possible."""
        if self._bonus is None:
            return False
        return bool((opinion.greatest > opinion.of_arcs(tree.heads) + self._bonus).any())

    def _scores(self, opinion: SecondOpinion, tree: Arcs) -> Floats:
        """[n, n + 1] The scores of the heads of each word."""
        scores = opinion.log_probabilities.copy()
        scores[np.arange(len(scores)), tree.heads] += self._bonus or 0.0
        return scores

    def _label(self, opinions: Sequence[SecondOpinion], before: Sequence[Arcs], found: list[Arcs]) -> None:
        """Give new arcs their best labels."""
        changed = [
            (number, np.flatnonzero(np.not_equal(old.heads, new.heads)).tolist())
            for number, (old, new) in enumerate(zip(before, found, strict=True))
            if new is not old
        ]
        arcs = [
            ArcsOfSentence(opinions[number], words, [found[number].heads[word] for word in words])
            for number, words in changed
        ]
        best = iter(self.label_scores(arcs).argmax(1).tolist())
        for number, words in changed:
            labels = list(found[number].labels)
            for word in words:
                labels[word] = self.numbers[next(best)]
            found[number] = found[number]._replace(labels=labels)

    @torch.inference_mode()
    def label_scores(self, arcs: Sequence[ArcsOfSentence]) -> Floats:
        """[arcs, labels] The scores of all arcs, in their order; -inf for impossible labels."""
        if not any(own.words for own in arcs):
            return np.zeros((0, self._possible.shape[1]), np.float32)
        heads, dependents = [], []
        for _, together in groupby(arcs, lambda own: id(own.opinion.table)):
            of_table = list(together)
            table = of_table[0].opinion.table
            numbers = [*chain.from_iterable(own.rows() for own in of_table)]
            rows = torch.tensor(numbers, dtype=torch.long).view(-1, 2)  # [arcs, 2]
            of_heads, of_dependents = to_device(rows, table.device).unbind(1)
            heads.append(table.index_select(0, of_heads))
            dependents.append(table.index_select(0, of_dependents))
        scores = self._labels.scores(torch.cat(heads), torch.cat(dependents))  # [arcs, labels]
        possible = self._possible[np.array([head == 0 for own in arcs for head in own.heads], int)]
        found: Floats = np.where(possible, scores.float().cpu().numpy(), np.float32(-np.inf))
        return found

    @cached_property
    def _arcs(self) -> list[ArcScorer]:
        return [model.network.arcs for model in self.models if model.network.arcs]

    @property
    def _labels(self) -> LabelScorer:
        labels = self.models[0].network.labels
        assert labels
        return labels

    @cached_property
    def _possible(self) -> NDArray[np.bool_]:
        """[2, labels] Which labels arcs from words can have, and which those from ROOT."""
        vocabulary = self.models[0].vocabulary
        possible = np.zeros((2, len(vocabulary.labels)), bool)
        for row, labels in zip(possible, (vocabulary.word_labels, vocabulary.root_labels), strict=True):
            row[list(labels)] = True
        return possible

    @cached_property
    def _bonus(self) -> float | None:
        found = [each.settings.network.arcs for each in self.models]
        bonuses = [arcs.bonus for arcs in found if arcs and arcs.bonus is not None]
        return mean(bonuses) if bonuses else None


def with_bonus(model: Model, bonus: float | None) -> Model:
    """The model, which must score arcs, with another `ArcSettings.bonus`."""
    arcs = model.settings.network.arcs
    assert arcs
    network = model.settings.network.model_copy(update={"arcs": arcs.model_copy(update={"bonus": bonus})})
    return replace(model, settings=model.settings.model_copy(update={"network": network}))


def _trees_of_greatest_sum(scored: Sequence[tuple[int, Floats]]) -> Iterator[tuple[int, list[int]]]:
    """Yield the number and heads of each sentence. scored: numbers, each with scores [n, n + 1]."""
    lengths = torch.tensor([len(scores) for _, scores in scored])
    for group in groups_of(lengths) if scored else ():
        own = [scored[place] for place in group.sentences.tolist()]
        longest = max(len(scores) for _, scores in own)
        padded = np.zeros((len(own), longest, longest + 1), np.float32)
        for place, (_, scores) in zip(padded, own, strict=True):
            place[: len(scores), : len(scores) + 1] = scores
        yield from zip(
            (number for number, _ in own),
            projective_trees(padded, lengths[group.sentences].numpy()),
            strict=True,
        )


def _probabilities(opinion: SecondOpinion, old: Arcs, new: Arcs) -> list[float]:
    """The means of the probabilities of parser and scorer.

    For an arc that the parser did not make, the parser's part is 1 minus the probability of its own arc.
    """
    is_kept = np.equal(old.heads, new.heads)
    of_parser = np.where(is_kept, old.probabilities, 1 - np.array(old.probabilities))
    of_both: list[float] = ((of_parser + np.exp(opinion.of_arcs(new.heads))) / 2).tolist()
    return of_both


def _on_host(tensors: Sequence[Tensor]) -> Iterator[Floats]:
    """Yield tensors of any shapes as arrays, after waiting once for a device."""
    if not tensors or tensors[0].device.type == "cpu":
        yield from (own.numpy() for own in tensors)
        return
    flat = torch.cat([own.flatten() for own in tensors]).cpu()
    for own, values in zip(tensors, flat.split([own.numel() for own in tensors]), strict=True):
        yield values.view(own.shape).numpy()
