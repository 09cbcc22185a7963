"""A batch of arc-hybrid states with a dynamic oracle. ROOT is behind the last word.

The features are those of the BiLSTM parser of Kiperwasser & Goldberg 2016: the three topmost words of the
stack and the front of the buffer, each with its leftmost and rightmost dependents. Everything is on the host,
in numpy. Transitions are Shift, Left (arc from the front to the top) and Right (arc from the second to the
top); n words take 2n transitions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHIFT, LEFT, RIGHT = range(3)
FEATURE_WORDS = 4
"""Words in the features of a state: the third, second and first of the stack, the front of the buffer."""
NOTHING = -1

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class HybridStates:
    """Words are numbered from 0, ROOT is n. Methods take the rows [rows] of the sentences concerned."""

    def __init__(self, heads: Sequence[Sequence[int]]):
        """heads: of each sentence, the gold heads of its words; projective trees."""
        count, most = len(heads), max(map(len, heads))
        self.words = np.array([len(own) for own in heads])
        self._heads = np.full((count, most + 1), NOTHING, np.int64)
        self._last_dependent = np.full((count, most + 1), NOTHING, np.int64)
        for row, own in enumerate(heads):
            self._heads[row, : len(own)] = own
            np.maximum.at(self._last_dependent[row], np.asarray(own), np.arange(len(own)))
        self._stack = np.full(
            (count, most + FEATURE_WORDS), NOTHING, np.int64
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
        """[rows, 3 * FEATURE_WORDS] Words, their leftmost and rightmost dependents (or themselves)."""
        items = np.stack([*(self._from_top(rows, below) for below in (2, 1, 0)), self._front[rows]], 1)
        return np.stack(
            [
                items,
                *(
                    np.where(items == NOTHING, NOTHING, side[rows[:, None], items])
                    for side in (self._leftmost, self._rightmost)
                ),
            ],
            2,
        ).reshape(len(rows), -1)

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
        self._stack[shifting, self._height[shifting] + FEATURE_WORDS - 1] = front
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
        return self._stack[rows, self._height[rows] + FEATURE_WORDS - 2 - below]
