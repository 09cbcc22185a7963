"""Which transitions a parser takes while it is trained with exploration (Kiperwasser & Goldberg 2016).

Each step is between the best transition after which all gold arcs can still be reached, and the best other
one. Where the first does not win by a margin there is a loss, and now and then the parser follows the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.benchmarks.feature_parser.hybrid_states import LEFT, RIGHT, SHIFT, HybridStates

MARGIN = 1.0
KINDS = 3


@dataclass(frozen=True)
class FeatureSentence:
    """Numbers of the words and tags, ROOT last; heads and labels of the words, ROOT being their number."""

    words: list[int]
    tags: list[int]
    heads: list[int]
    labels: list[int]
    chances: NDArray[np.float64]
    """[transitions] From 0 to 1, which decide where to explore."""


class Chosen(NamedTuple):
    """Steps that have a loss."""

    places: list[int]
    """Which of those asked."""
    pairs: NDArray[np.int64]
    """[steps] The right transition * labelled transitions + the wrong one."""


class Decisions:
    """All sentences of a batch, step by step: iterate over what to score, and `take` the scores each time."""

    def __init__(self, sentences: Sequence[FeatureSentence], labels: int, explore: float):
        """labels: so many there are; explore: how often to follow a wrong transition that scores lower."""
        self._count, self._explore = labels, explore
        self._states = HybridStates([sentence.heads for sentence in sentences])
        most = max(len(sentence.heads) for sentence in sentences)
        self._labels = np.zeros((len(sentences), most + 1), np.int64)
        self._chances = np.ones((len(sentences), 2 * most))
        for row, sentence in enumerate(sentences):
            self._labels[row, : len(sentence.labels)] = sentence.labels
            self._chances[row, : len(sentence.chances)] = sentence.chances
        self._step = 0

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The sentences that go on, by their rows [asked], and what their states show [asked, FEATURES]."""
        while len(rows := self._states.unfinished()):
            self._rows = rows
            yield rows, self._states.shown(rows)

    def take(self, scores: NDArray[np.float64]) -> Chosen:
        """Go one step on. scores: [asked, KINDS + labelled transitions]"""
        rows, labels = self._rows, self._count
        place = np.arange(len(rows))
        kind_of = np.repeat([SHIFT, LEFT, RIGHT], [1, labels, labels])
        totals = scores[:, kind_of] + scores[:, KINDS:]  # [asked, labelled transitions]
        right = self._states.harmless(rows)[:, kind_of]
        has_gold_label = np.zeros_like(right)
        gold = self._labels[rows, self._states.top(rows)]
        has_gold_label[:, 0] = True
        has_gold_label[place, 1 + gold] = has_gold_label[place, 1 + labels + gold] = True
        right &= has_gold_label
        wrong = self._states.legal(rows)[:, kind_of] & ~right
        best_right, best_wrong = (np.where(mask, totals, -np.inf).argmax(1) for mask in (right, wrong))
        gap = totals[place, best_right] - np.where(wrong.any(1), totals[place, best_wrong], -np.inf)
        explores = (gap < 0) | (self._chances[rows, self._step] < self._explore)
        followed = np.where((gap < MARGIN) & explores, best_wrong, best_right)
        self._states.advance(rows, kind_of[followed])
        self._step += 1
        inside = np.flatnonzero(gap < MARGIN)
        return Chosen(inside.tolist(), (best_right * len(kind_of) + best_wrong)[inside])
