"""Training with exploration and a dynamic oracle (Kiperwasser & Goldberg 2016).

Each step compares the best correct transition, after which all reachable gold arcs stay reachable, with the
best incorrect transition. There is a hinge loss if the margin is violated, and sometimes the parser follows
the incorrect transition.

The states are arc-hybrid, with ROOT after the last word. The features are those with which Neubig et al.
2017 ran the BiLSTM parser of Kiperwasser & Goldberg 2016: the leftmost and the rightmost dependents of the
three topmost words of the stack and of the front of the buffer. A word without such a dependent is its own
feature. Everything runs on the host, in numpy. Transitions are Shift, Left (arc from the front to the top)
and Right (arc from the second to the top); n words take 2n transitions.

This is not `parser/transitions/arc_hybrid.py`: here, as in the paper, ROOT is a word of the buffer that can
have several dependents and needs no extra transition. Also, a step of 64 sentences takes a fifth of the time
that is spent there on costs and effects in tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.batching.levels import Integers

SHIFT, LEFT, RIGHT = range(3)
CONTEXT_WORDS = 4
"""The words whose features represent a state: the top three of the stack and the front of the buffer."""
FEATURES = 2 * CONTEXT_WORDS
NOTHING = -1

Booleans = NDArray[np.bool_]


HINGE_MARGIN = 1.0
TRANSITION_KINDS = 3


class HybridStates:
    """Words are numbered from 0, ROOT is n. Methods take the rows [rows] of the relevant sentences."""

    def __init__(self, heads: Sequence[Sequence[int]]):
        """heads: the gold heads of the words in each sentence, which form projective trees."""
        count, most = len(heads), max(map(len, heads))
        self.words = np.array([len(own) for own in heads])
        self._heads = np.full((count, most + 1), NOTHING, np.int64)
        self._last_dependent = np.full((count, most + 1), NOTHING, np.int64)
        for row, own in enumerate(heads):
            self._heads[row, : len(own)] = own
            np.maximum.at(self._last_dependent[row], np.asarray(own), np.arange(len(own)))
        self._stack = np.full(
            (count, most + CONTEXT_WORDS), NOTHING, np.int64
        )  # its bottom three rows stay empty
        self._height = np.zeros(count, np.int64)
        self._front = np.zeros(count, np.int64)
        self._on_stack = np.zeros((count, most + 1), np.bool_)
        self._dependents_on_stack = np.zeros((count, most + 1), np.int64)
        own_number = np.broadcast_to(np.arange(most + 1), (count, most + 1))
        self._leftmost, self._rightmost = own_number.copy(), own_number.copy()

    def unfinished(self) -> Integers:
        """[rows] The rows of the sentences that are not complete."""
        return np.flatnonzero((self._height > 0) | (self._front < self.words))

    def features(self, rows: Integers) -> Integers:
        """[rows, FEATURES] The leftmost and the rightmost dependent of each word, or the word itself.

        NOTHING if the stack contains no such word.
        """
        words = np.stack([*(self._from_top(rows, below) for below in (2, 1, 0)), self._front[rows]], 1)
        sides = [
            np.where(words == NOTHING, NOTHING, side[rows[:, None], words])
            for side in (self._leftmost, self._rightmost)
        ]
        return np.stack(sides, 2).reshape(len(rows), FEATURES)

    def legal(self, rows: Integers) -> Booleans:
        """[rows, 3]"""
        height = self._height[rows]
        return np.stack([self._front[rows] < self.words[rows], height > 0, height > 1], 1)

    def zero_cost(self, rows: Integers) -> Booleans:
        """[rows, 3] Legal transitions of zero cost: every reachable gold arc stays reachable."""
        front, top, second = self._front[rows], self._from_top(rows, 0), self._from_top(rows, 1)
        head = self._heads[rows, top]
        head_of_front = self._heads[rows, front]
        no_more_dependents = self._last_dependent[rows, top] < front
        left = no_more_dependents & (head <= front) & ((head != second) | (second == NOTHING))
        right = no_more_dependents & (head < front)
        head_is_below = self._on_stack[rows, head_of_front] & (head_of_front != top)
        shift = ~head_is_below & (self._dependents_on_stack[rows, front] == 0)
        return np.stack([shift, left, right], 1) & self.legal(rows)

    def top(self, rows: Integers) -> Integers:
        """[rows] The word on top of the stack, or NOTHING."""
        return self._from_top(rows, 0)

    def advance(self, rows: Integers, transitions: Integers) -> None:
        """transitions: [rows], all of them legal."""
        shifting = rows[transitions == SHIFT]
        front = self._front[shifting]
        self._stack[shifting, self._height[shifting] + CONTEXT_WORDS - 1] = front
        self._height[shifting] += 1
        self._front[shifting] += 1
        self._on_stack[shifting, front] = True
        self._dependents_on_stack[shifting, self._heads[shifting, front]] += 1
        for transition, side in ((LEFT, self._leftmost), (RIGHT, self._rightmost)):
            popping = rows[transitions == transition]
            word = self._from_top(popping, 0)
            new_head = self._front[popping] if transition == LEFT else self._from_top(popping, 1)
            side[popping, new_head] = word
            self._height[popping] -= 1
            self._on_stack[popping, word] = False
            self._dependents_on_stack[popping, self._heads[popping, word]] -= 1

    def _from_top(self, rows: Integers, below: int) -> Integers:
        """[rows] The word `below` positions under the top of the stack, or NOTHING."""
        return self._stack[rows, self._height[rows] + CONTEXT_WORDS - 2 - below]


@dataclass(frozen=True)
class FeatureSentence:
    """Word and tag numbers, with ROOT last; heads and labels of words. ROOT as a head is n for n words."""

    words: list[int]
    tags: list[int]
    heads: list[int]
    labels: list[int]
    chances: NDArray[np.float64]
    """[transitions] Random numbers from 0 to 1 that determine where to explore."""


class StateFeatures(NamedTuple):
    """The features of the sentences that are not complete."""

    rows: Integers
    """[rows] The positions of the sentences in the batch."""
    words: Integers
    """[rows, FEATURES] See `HybridStates.features`."""


class Chosen(NamedTuple):
    """The steps with a loss."""

    places: list[int]
    """The positions of the steps among the scored states."""
    pairs: Integers
    """[steps] Correct transition * number of labelled transitions + incorrect transition."""


class Decisions:
    """Decisions for a batch of sentences.

    Iterate over the states, and pass the scores of each step to `take`.
    """

    def __init__(self, sentences: Sequence[FeatureSentence], labels: int, explore: float):
        """labels: the number of labels; explore: the probability of following an incorrect transition with a
        lower score."""
        self._count, self._explore = labels, explore
        self._states = HybridStates([sentence.heads for sentence in sentences])
        most = max(len(sentence.heads) for sentence in sentences)
        self._labels = np.zeros((len(sentences), most + 1), np.int64)
        self._chances = np.ones((len(sentences), 2 * most))
        for row, sentence in enumerate(sentences):
            self._labels[row, : len(sentence.labels)] = sentence.labels
            self._chances[row, : len(sentence.chances)] = sentence.chances
        self._step = 0

    def __iter__(self) -> Iterator[StateFeatures]:
        while len(rows := self._states.unfinished()):
            self._rows = rows
            yield StateFeatures(rows, self._states.features(rows))

    def take(self, scores: NDArray[np.float64]) -> Chosen:
        """Advance one step. scores: [rows, KINDS + labelled transitions]"""
        rows, labels = self._rows, self._count
        place = np.arange(len(rows))
        kind_of = np.repeat([SHIFT, LEFT, RIGHT], [1, labels, labels])
        totals = scores[:, kind_of] + scores[:, TRANSITION_KINDS:]  # [rows, labelled transitions]
        right = self._states.zero_cost(rows)[:, kind_of]
        has_gold_label = np.zeros_like(right)
        gold = self._labels[rows, self._states.top(rows)]
        has_gold_label[:, 0] = True
        has_gold_label[place, 1 + gold] = has_gold_label[place, 1 + labels + gold] = True
        right &= has_gold_label
        wrong = self._states.legal(rows)[:, kind_of] & ~right
        best_right, best_wrong = (np.where(mask, totals, -np.inf).argmax(1) for mask in (right, wrong))
        gap = totals[place, best_right] - np.where(wrong.any(1), totals[place, best_wrong], -np.inf)
        explores = (gap < 0) | (self._chances[rows, self._step] < self._explore)
        followed = np.where((gap < HINGE_MARGIN) & explores, best_wrong, best_right)
        self._states.advance(rows, kind_of[followed])
        self._step += 1
        inside = np.flatnonzero(gap < HINGE_MARGIN)
        return Chosen(inside.tolist(), (best_right * len(kind_of) + best_wrong)[inside])
