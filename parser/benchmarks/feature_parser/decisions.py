"""Training with exploration and a dynamic oracle (Kiperwasser & Goldberg 2016).

Each step compares the best correct transition, after which all reachable gold arcs stay reachable, with the
best incorrect one. There is a hinge loss if the margin is violated, and sometimes the parser follows the
incorrect one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.benchmarks.feature_parser.hybrid_states import FEATURE_WORDS, LEFT, RIGHT, SHIFT, HybridStates

MARGIN = 1.0
KINDS = 3
RELATIONS = 2 * FEATURE_WORDS
"""Of the leftmost and the rightmost dependent of each word in the features."""


@dataclass(frozen=True)
class FeatureSentence:
    """Word and tag numbers, with ROOT last; heads and labels of words. As a head, ROOT is n for n words."""

    words: list[int]
    tags: list[int]
    heads: list[int]
    labels: list[int]
    chances: NDArray[np.float64]
    """[transitions] Random numbers from 0 to 1 that determine where to explore."""


class States(NamedTuple):
    """The features of the sentences that are not complete."""

    rows: NDArray[np.int64]
    """[rows] Their positions in the batch."""
    words: NDArray[np.int64]
    """[rows, 3 * FEATURE_WORDS] See `HybridStates.features`."""
    relations: NDArray[np.int64]
    """[rows, RELATIONS] The labels of the leftmost and rightmost dependents' arcs, as they were predicted.

    The number of labels where there is no such dependent.
    """


class Chosen(NamedTuple):
    """The steps with a loss."""

    places: list[int]
    """Their positions among the scored states."""
    pairs: NDArray[np.int64]
    """[steps] Correct transition * number of labelled transitions + incorrect transition."""


class Decisions:
    """Decisions for a batch of sentences.

    Iterate over the states, and pass the scores of each step to `take`.
    """

    def __init__(self, sentences: Sequence[FeatureSentence], labels: int, explore: float):
        """labels: their number; explore: the probability of following a lower-scoring incorrect action."""
        self._count, self._explore = labels, explore
        self._states = HybridStates([sentence.heads for sentence in sentences])
        most = max(len(sentence.heads) for sentence in sentences)
        self._labels = np.zeros((len(sentences), most + 1), np.int64)
        # Words without a head have no label, among them all words of the stack and NOTHING, the last column.
        self._predicted = np.full((len(sentences), most + 1), labels)
        self._chances = np.ones((len(sentences), 2 * most))
        for row, sentence in enumerate(sentences):
            self._labels[row, : len(sentence.labels)] = sentence.labels
            self._chances[row, : len(sentence.chances)] = sentence.chances
        self._step = 0

    def __iter__(self) -> Iterator[States]:
        while len(rows := self._states.unfinished()):
            self._rows = rows
            words = self._states.features(rows)
            dependents = words.reshape(len(rows), FEATURE_WORDS, 3)[:, :, 1:].reshape(len(rows), -1)
            yield States(rows, words, self._predicted[rows[:, None], dependents])

    def take(self, scores: NDArray[np.float64]) -> Chosen:
        """Advance one step. scores: [rows, KINDS + labelled transitions]"""
        rows, labels = self._rows, self._count
        place = np.arange(len(rows))
        kind_of = np.repeat([SHIFT, LEFT, RIGHT], [1, labels, labels])
        totals = scores[:, kind_of] + scores[:, KINDS:]  # [rows, labelled transitions]
        right = self._states.zero_cost(rows)[:, kind_of]
        has_gold_label = np.zeros_like(right)
        top = self._states.top(rows)
        gold = self._labels[rows, top]
        has_gold_label[:, 0] = True
        has_gold_label[place, 1 + gold] = has_gold_label[place, 1 + labels + gold] = True
        right &= has_gold_label
        wrong = self._states.legal(rows)[:, kind_of] & ~right
        best_right, best_wrong = (np.where(mask, totals, -np.inf).argmax(1) for mask in (right, wrong))
        gap = totals[place, best_right] - np.where(wrong.any(1), totals[place, best_wrong], -np.inf)
        explores = (gap < 0) | (self._chances[rows, self._step] < self._explore)
        followed = np.where((gap < MARGIN) & explores, best_wrong, best_right)
        arc = followed > 0
        self._predicted[rows[arc], top[arc]] = (followed[arc] - 1) % labels
        self._states.advance(rows, kind_of[followed])
        self._step += 1
        inside = np.flatnonzero(gap < MARGIN)
        return Chosen(inside.tolist(), (best_right * len(kind_of) + best_wrong)[inside])
