"""Arc-hybrid states of many sentences at once, with ROOT behind the last word, and their dynamic oracle.

As the BiLSTM parser of Kiperwasser & Goldberg 2016 needs them: a state shows its three topmost words and the
front of the buffer, each with its outermost dependents so far. Arrays, for the network asks for features and
takes decisions on the host. Transitions are Shift, Left (the front heads the top) and Right (the second heads
the top); n words take 2n of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SHIFT, LEFT, RIGHT = range(3)
SHOWN = 4
"""Words that a state shows: the third, second and first of the stack, the front of the buffer."""
NOTHING = -1

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class HybridStates:
    """Words are numbered from 0, ROOT is n. A method is asked about some sentences, by their rows [asked]."""

    def __init__(self, heads: Sequence[Sequence[int]]):
        """heads: of each sentence, the gold heads of its words; projective trees."""
        count, most = len(heads), max(map(len, heads))
        self.words = np.array([len(own) for own in heads])
        self._heads = np.full((count, most + 1), NOTHING, np.int64)
        self._last_dependent = np.full((count, most + 1), NOTHING, np.int64)
        for row, own in enumerate(heads):
            self._heads[row, : len(own)] = own
            np.maximum.at(self._last_dependent[row], np.asarray(own), np.arange(len(own)))
        self._stack = np.full((count, most + SHOWN), NOTHING, np.int64)  # its bottom three rows stay empty
        self._height = np.zeros(count, np.int64)
        self._front = np.zeros(count, np.int64)
        self._on_stack = np.zeros((count, most + 1), np.bool_)
        self._dependents_on_stack = np.zeros((count, most + 1), np.int64)
        own_number = np.broadcast_to(np.arange(most + 1), (count, most + 1))
        self._leftmost, self._rightmost = own_number.copy(), own_number.copy()

    def unfinished(self) -> Integers:
        """[asked] The rows of the sentences that are not parsed yet."""
        return np.flatnonzero((self._height > 0) | (self._front < self.words))

    def shown(self, rows: Integers) -> Integers:
        """[asked, 3 * SHOWN] Each word shown, its leftmost and rightmost dependents, or itself for none."""
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
        """[asked, 3]"""
        height = self._height[rows]
        return np.stack([self._front[rows] < self.words[rows], height > 0, height > 1], 1)

    def harmless(self, rows: Integers) -> Booleans:
        """[asked, 3] Legal transitions after which every gold arc that can be reached before still can."""
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
        """[asked] The word on top of the stack, or NOTHING."""
        return self._from_top(rows, 0)

    def advance(self, rows: Integers, transitions: Integers) -> None:
        """transitions: [asked], all of them legal."""
        shifting = rows[transitions == SHIFT]
        front = self._front[shifting]
        self._stack[shifting, self._height[shifting] + SHOWN - 1] = front
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
        """[asked] The word so far below the top of the stack, or NOTHING."""
        return self._stack[rows, self._height[rows] + SHOWN - 2 - below]
