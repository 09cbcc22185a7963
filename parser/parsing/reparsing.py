"""Reparsing (Sagae & Lavie 2006): the tree that the parser and its scorer of arcs find together.

It is the projective tree of the greatest sum of the logarithms of the scorer's probabilities, where the arcs
of the parser's own tree have a bonus. Arcs that the parser did not make get the label that the scorer of
labels finds best. Word vectors are read when a sentence is, the rest is done on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parser.batching.device import to_device
from parser.networks.arc_scorer import ArcScorer, groups_of
from parser.networks.label_scorer import LabelScorer
from parser.networks.stack_parser import WordVectors
from parser.parsing.eisner import projective_trees
from parser.parsing.model import Model
from parser.parsing.parsed_tree import Arcs

Floats = NDArray[np.float32]


class SecondOpinion(NamedTuple):
    """What the scorers say of a sentence of n words."""

    log_probabilities: Floats
    """[n, n + 1] Of each word those of its heads, the first of which is ROOT."""
    greatest: Floats
    """[n] The greatest one of each word."""
    as_heads: Floats
    """[n + 1, size] What ROOT and each word add as heads to the hidden layer of the scorer of labels."""
    as_dependents: Floats
    """[n, size]"""


@dataclass(frozen=True)
class Reparser:
    models: Sequence[Model]
    """Those of an ensemble that score arcs; at least one. The first one scores labels for all."""
    numbers: Sequence[int]
    """Of each label of the first one, its number in the trees."""

    @classmethod
    def of(cls, model: Model) -> Reparser | None:
        """For a parser or an ensemble; None if none of its models scores arcs."""
        scoring = [each for each in model.members if each.network.arcs]
        if not scoring:
            return None
        names = scoring[0].vocabulary.labels.strings
        return cls(scoring, [0, *map(model.vocabulary.labels.number, names)])

    @property
    def changes_trees(self) -> bool:
        """Whether it does more than to change probabilities."""
        return self._bonus is not None

    @torch.inference_mode()
    def opinions(self, lengths: Tensor, words: Sequence[WordVectors]) -> list[SecondOpinion]:
        """Of each sentence. lengths: [sentences] in words, on the host. words: as each model reads them."""
        tables = [each.table.index_select(0, to_device(each.row, each.table.device)) for each in words]
        groups = groups_of(lengths)
        of_models = (
            arcs.log_probabilities(table, groups) for arcs, table in zip(self._arcs, tables, strict=True)
        )
        as_heads, as_dependents = (
            part.float().cpu().numpy() for part in self._labels.hidden_parts(tables[0])
        )
        root = as_heads[-2:-1]
        starts = (lengths.cumsum(0) - lengths).tolist()
        found: list[SecondOpinion | None] = [None] * len(lengths)
        for group, *logs in zip(groups, *of_models, strict=True):
            together = torch.stack(logs).mean(0).log_softmax(2).float().cpu().numpy()
            greatest = together.max(2)
            for place, sentence in enumerate(group.sentences.tolist()):
                length = int(lengths[sentence])
                own = slice(starts[sentence], starts[sentence] + length)
                found[sentence] = SecondOpinion(
                    together[place, :length, : length + 1],
                    greatest[place, :length],
                    np.concatenate([root, as_heads[own]]),
                    as_dependents[own],
                )
        return [each for each in found if each]

    def reparse(self, opinions: Sequence[SecondOpinion], trees: Sequence[Arcs]) -> list[Arcs]:
        """Of the parser's own trees, those of both. Labels are numbers as in these."""
        found = list(trees)
        doubtful = [
            number
            for number, (opinion, tree) in enumerate(zip(opinions, trees, strict=True))
            if self._bonus is not None
            and (opinion.greatest > _of_arcs(opinion, tree.heads) + self._bonus).any()
        ]
        for group in (
            groups_of(torch.tensor([len(trees[number].heads) for number in doubtful])) if doubtful else ()
        ):
            numbers = [doubtful[place] for place in group.sentences.tolist()]
            own = [(opinions[number], trees[number]) for number in numbers]
            for number, heads in zip(numbers, self._best_heads(own), strict=True):
                found[number] = self._changed(opinions[number], trees[number], heads)
        return [
            tree._replace(probabilities=_probabilities(opinion, old, tree)) if tree.probabilities else tree
            for opinion, old, tree in zip(opinions, trees, found, strict=True)
        ]

    def _best_heads(self, own: Sequence[tuple[SecondOpinion, Arcs]]) -> list[list[int]]:
        lengths = np.array([len(tree.heads) for _, tree in own])
        scores = np.zeros((len(own), lengths.max(), lengths.max() + 1), np.float32)
        for place, (opinion, tree) in enumerate(own):
            length = lengths[place]
            scores[place, :length, : length + 1] = opinion.log_probabilities
            scores[place, np.arange(length), tree.heads] += self._bonus or 0.0
        return projective_trees(scores, lengths)

    def _changed(self, opinion: SecondOpinion, tree: Arcs, heads: list[int]) -> Arcs:
        """The tree with other heads, and with labels for those."""
        words = np.flatnonzero(np.not_equal(heads, tree.heads))
        labels = list(tree.labels)
        for word, label in zip(
            words.tolist(), self._best_labels(opinion, words, np.take(heads, words)), strict=True
        ):
            labels[word] = label
        return tree._replace(heads=heads, labels=labels)

    def _best_labels(
        self, opinion: SecondOpinion, words: NDArray[np.intp], heads: NDArray[np.intp]
    ) -> list[int]:
        """[n] Of the arcs from `heads` [n] to `words` [n]."""
        weight, bias, is_possible = self._output
        hidden = np.maximum(opinion.as_heads[heads] + opinion.as_dependents[words], 0)  # [n, size]
        scores = hidden @ weight.T + bias  # [n, labels]
        best = np.where(is_possible[(heads > 0).astype(int)], scores, -np.inf).argmax(1)
        return [self.numbers[label] for label in best.tolist()]

    @cached_property
    def _arcs(self) -> list[ArcScorer]:
        return [model.network.arcs for model in self.models if model.network.arcs]

    @property
    def _labels(self) -> LabelScorer:
        labels = self.models[0].network.labels
        assert labels
        return labels

    @cached_property
    def _output(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Weight and bias of the output layer, and [2, labels] which labels are those of arcs from ROOT and
        of arcs from words."""
        vocabulary, layer = self.models[0].vocabulary, self._labels.labels
        is_possible = np.zeros((2, layer.out_features), bool)
        for row, labels in enumerate((vocabulary.root_labels, vocabulary.word_labels)):
            is_possible[row, list(labels)] = True
        weight, bias = (part.detach().float().cpu().numpy() for part in (layer.weight, layer.bias))
        return weight, bias, is_possible

    @property
    def _bonus(self) -> float | None:
        settings = self.models[0].settings.network.arcs
        assert settings
        return settings.bonus


def with_bonus(model: Model, bonus: float | None) -> Model:
    """The model, which must score arcs, with another `ArcSettings.bonus`."""
    arcs = model.settings.network.arcs
    assert arcs
    network = model.settings.network.model_copy(update={"arcs": arcs.model_copy(update={"bonus": bonus})})
    return replace(model, settings=model.settings.model_copy(update={"network": network}))


def _of_arcs(opinion: SecondOpinion, heads: Sequence[int]) -> Floats:
    """[n] The logarithms of the probabilities of the arcs."""
    return opinion.log_probabilities[np.arange(len(heads)), heads]


def _probabilities(opinion: SecondOpinion, old: Arcs, new: Arcs) -> list[float]:
    """The mean of those of parser and scorer. The parser's own for an arc that it did not make is what it has
    left for all of them."""
    is_kept = np.equal(old.heads, new.heads)
    of_parser = np.where(is_kept, old.probabilities, 1 - np.array(old.probabilities))
    mean: list[float] = ((of_parser + np.exp(_of_arcs(opinion, new.heads))) / 2).tolist()
    return mean
