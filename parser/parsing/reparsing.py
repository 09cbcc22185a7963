"""What the scorers of arcs add: trees that they and the parser find together, and alternatives to arcs.

Reparsing (Sagae & Lavie 2006) finds the projective tree with the greatest sum of the scorer's log
probabilities, where the arcs of the parser's own tree get a bonus. Arcs that the parser did not make get the
label that the scorer of labels finds best. Word vectors are computed when a sentence is encoded, the rest is
done on the host. Alternatives are found for each word on its own: those of all words together need not form a
tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.batching.like_length import groups_of_like_length
from parser.models.model import AnyModel, Model
from parser.parsing.constraints import SentenceConstraints
from parser.parsing.eisner import is_projective_tree, projective_trees
from parser.parsing.parsed_tree import Alternative, Arcs
from parser.runtime.arcs import HeadScorer, SecondOpinion
from parser.runtime.kernels import kernels
from parser.runtime.layers import LinearLayer
from parser.runtime.reference import Floats
from parser.runtime.words import EncodedArrays
from parser.treebank.sentence import BLANK, MARK

MAX_WORDS = 500
"""Longest sentence. Time grows with the cube of its words: 0.25 s for 500, 20 s for 2,000."""


class ArcsOfSentence(NamedTuple):
    """Arcs between the words of a sentence, which need not form a tree."""

    opinion: SecondOpinion
    words: Sequence[int]
    """The dependents, from 0."""
    heads: Sequence[int]
    """From 1; 0 for ROOT."""


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
        scoring = [each for each in model.members if each.settings.network.arcs]
        if not scoring:
            return None
        names = scoring[0].vocabulary.labels.strings
        return cls(scoring, [0, *map(model.vocabulary.labels.number, names)])

    @property
    def changes_trees(self) -> bool:
        """Whether reparsing can change trees, and not only probabilities."""
        return self._bonus is not None

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
        best = list(trees)
        left: list[tuple[int, Floats]] = []
        for number, (opinion, tree) in enumerate(zip(opinions, trees, strict=True)):
            # A better tree is possible only if another head of a word beats its own head with the bonus.
            if self._bonus is None or not (
                (opinion.greatest > opinion.of_arcs(tree.heads) + self._bonus).any()
            ):
                continue
            scores = opinion.log_probabilities.copy()  # [n, n + 1]
            scores[np.arange(len(scores)), tree.heads] += self._bonus
            heads = scores.argmax(1).tolist()
            if is_projective_tree(heads):  # no other tree has a greater sum
                best[number] = tree._replace(heads=heads)
            else:
                left.append((number, scores))
        for number, heads in _trees_of_greatest_sum(left):
            best[number] = trees[number]._replace(heads=heads)
        self._label(opinions, trees, best)
        for number, given in enumerate(constraints):
            if given and given.exceeded(best[number]) > given.exceeded(trees[number]):
                best[number] = trees[number]
        return [
            tree._replace(probabilities=_probabilities(opinion, old, tree)) if tree.probabilities else tree
            for opinion, old, tree in zip(opinions, trees, best, strict=True)
        ]

    def _label(self, opinions: Sequence[SecondOpinion], before: Sequence[Arcs], after: list[Arcs]) -> None:
        """Give new arcs their best labels."""
        changed = [
            (number, np.flatnonzero(np.not_equal(old.heads, new.heads)).tolist())
            for number, (old, new) in enumerate(zip(before, after, strict=True))
            if new is not old
        ]
        arcs = [
            ArcsOfSentence(opinions[number], words, [after[number].heads[word] for word in words])
            for number, words in changed
        ]
        best = iter(self.label_scores(arcs).argmax(1).tolist())
        for number, words in changed:
            labels = list(after[number].labels)
            for word in words:
                labels[word] = self.numbers[next(best)]
            after[number] = after[number]._replace(labels=labels)

    def label_scores(self, arcs: Sequence[ArcsOfSentence]) -> Floats:
        """[arcs, labels] The scores of all arcs, in their order; -inf for impossible labels."""
        hidden = [each.opinion.as_heads[each.heads] + each.opinion.as_dependents[each.words] for each in arcs]
        if not any(map(len, hidden)):
            return np.zeros((0, self._possible.shape[1]), np.float32)
        scores = self._label_output(np.maximum(np.concatenate(hidden), 0))  # [arcs, labels]
        possible = self._possible[np.array([head == 0 for each in arcs for head in each.heads], int)]
        allowed: Floats = np.where(possible, scores, np.float32(-np.inf))
        return allowed

    @cached_property
    def _label_output(self) -> LinearLayer:
        weight, bias = (self.models[0].weight(f"labels.labels.{name}") for name in ("weight", "bias"))
        return LinearLayer(kernels(), np.asarray(weight, np.float32), np.asarray(bias, np.float32))

    @cached_property
    def _possible(self) -> NDArray[np.bool_]:
        """[2, labels] Which labels arcs from words can have, and which those from ROOT."""
        vocabulary = self.models[0].vocabulary
        possible = np.zeros((2, len(vocabulary.labels)), bool)
        for row, labels in zip(possible, (vocabulary.word_labels, vocabulary.root_labels), strict=True):
            row[list(labels)] = True
        return possible

    @property
    def bonus(self) -> float:
        """What is added to the log probability of an arc that the parser made."""
        return self._bonus or 0.0

    @cached_property
    def _bonus(self) -> float | None:
        of_models = [each.settings.network.arcs for each in self.models]
        bonuses = [arcs.bonus for arcs in of_models if arcs and arcs.bonus is not None]
        return mean(bonuses) if bonuses else None


def opinions(scoring: Sequence[tuple[HeadScorer, EncodedArrays]]) -> list[SecondOpinion | None]:
    """The opinion on each sentence; None if the sentence is longer than `MAX_WORDS`.

    scoring: the scorer of each model that has one, and its words.
    """
    of_models = (scorer(words.vectors, words.lengths, MAX_WORDS) for scorer, words in scoring)
    known = ([each for each in of_sentence if each] for of_sentence in zip(*of_models, strict=True))
    return [_joined(of_sentence) if of_sentence else None for of_sentence in known]


def _joined(of_models: Sequence[SecondOpinion]) -> SecondOpinion:
    """The opinion of all models on a sentence. Labels are those of the first."""
    first, *others = of_models
    if not others:
        return first
    return first.with_logs(np.mean([each.log_probabilities for each in of_models], axis=0))


def with_bonus(model: AnyModel, bonus: float | None) -> AnyModel:
    """The model, which must score arcs, with another `ArcSettings.bonus`."""
    arcs = model.settings.network.arcs
    assert arcs
    network = model.settings.network.model_copy(update={"arcs": arcs.model_copy(update={"bonus": bonus})})
    return replace(model, settings=model.settings.model_copy(update={"network": network}))


def _trees_of_greatest_sum(scored: Sequence[tuple[int, Floats]]) -> Iterator[tuple[int, list[int]]]:
    """Yield the number and heads of each sentence. scored: numbers, each with scores [n, n + 1]."""
    lengths = np.array([len(scores) for _, scores in scored])
    for group in groups_of_like_length(lengths):
        numbers, of_group = zip(*(scored[index] for index in group.tolist()), strict=True)
        longest = max(map(len, of_group))
        padded = np.zeros((len(of_group), longest, longest + 1), np.float32)
        for row, scores in zip(padded, of_group, strict=True):
            row[: len(scores), : len(scores) + 1] = scores
        yield from zip(numbers, projective_trees(padded, lengths[group]), strict=True)


def _probabilities(opinion: SecondOpinion, old: Arcs, new: Arcs) -> list[float]:
    """The means of the probabilities of parser and scorer.

    For an arc that the parser did not make, the parser's part is 1 minus the probability of its own arc.
    """
    is_kept = np.equal(old.heads, new.heads)
    of_parser = np.where(is_kept, old.probabilities, 1 - np.array(old.probabilities))
    of_both: list[float] = ((of_parser + np.exp(opinion.of_arcs(new.heads))) / 2).tolist()
    return of_both


Alternatives = tuple[tuple[Alternative, ...], ...]


class Wanted(NamedTuple):
    opinion: SecondOpinion
    """The opinion on the sentence."""
    heads: int
    """Most alternatives of each word. Heads with a probability of 0 are left out."""
    constraints: SentenceConstraints | None


def alternatives(reparser: Reparser, wanted: Sequence[Wanted]) -> list[Alternatives]:
    """The alternatives of the words of each sentence, the most probable first."""
    arcs = []
    for opinion, count, _ in wanted:
        logs = opinion.log_probabilities
        order = np.argsort(-logs, axis=1, kind="stable")[:, :count]  # [n, count]
        words_of_arcs, ranks = np.nonzero(np.isfinite(np.take_along_axis(logs, order, 1)))
        arcs.append(ArcsOfSentence(opinion, words_of_arcs.tolist(), order[words_of_arcs, ranks].tolist()))
    labels = reparser.models[0].vocabulary.labels
    best = iter(reparser.label_scores(arcs).argmax(1).tolist())
    of_sentences = []
    for (opinion, words, heads), (_, _, constraints) in zip(arcs, wanted, strict=True):
        of_words: list[list[Alternative]] = [[] for _ in opinion.log_probabilities]
        for word, head in zip(words, heads, strict=True):
            probability = float(np.exp(opinion.log_probabilities[word, head]))
            label = labels.string(next(best)).partition(MARK)[0]  # without the mark of a lifted word
            given = constraints.labels[word] if constraints else BLANK
            of_words[word].append(Alternative(head, label if given == BLANK else given, probability))
        of_sentences.append(tuple(map(tuple, of_words)))
    return of_sentences


def refuse_without_scorer(model: Model) -> None:
    """Raises ValueError if the model has no scorer of arcs, which alternatives need."""
    if not any(each.settings.network.arcs for each in model.members):
        raise ValueError(
            "alternatives need a model with a scorer of arcs: train one with parser.network.arcs"
        )


def as_text(of_words: Alternatives) -> Iterator[str]:
    """For each word, the text in MISC: `probability:head:label` of each alternative, separated by commas."""
    for of_word in of_words:
        escaped = (each.label.replace("%", "%25").replace(",", "%2C").replace("|", "%7C") for each in of_word)
        pairs = zip(of_word, escaped, strict=True)
        yield ",".join(f"{each.probability:.4f}:{each.head}:{label}" for each, label in pairs)
