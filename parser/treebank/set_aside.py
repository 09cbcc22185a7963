"""Which given arcs are set aside if no projective tree can contain all of them.

A module of its own: NumPy takes longer to import than a treebank takes to check.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parser.treebank.partial_trees import arcs_of, can_be_projective


def set_aside(heads: Sequence[int]) -> list[int]:
    """The words, in order, whose heads must be left out so that a projective tree can contain all others.

    The arc from ROOT is kept first, then shorter arcs before longer ones, from left to right. heads: without
    cycles or several roots.
    """
    if can_be_projective(heads):
        return []
    order = sorted((head != 0, abs(head - word), word) for word, head in arcs_of(heads))
    kept = _FittingArcs(len(heads))
    return sorted(word for _, _, word in order if not kept.add(word, heads[word - 1]))


class _FittingArcs:
    """Arcs that one projective tree can contain. Adding an arc is faster than `can_be_projective`."""

    def __init__(self, words: int):
        # [words + 1] For ROOT and each word: its head, and the left and right ends of the arc; 0 for none.
        self._heads, self._left, self._right = np.zeros((3, words + 1), int)
        self._tops = np.arange(words + 1)
        """[words + 1] See `tops_of`."""

    def add(self, word: int, head: int) -> bool:
        """Add an arc if it fits; return whether it does. The word must not be above its head."""
        left, right = min(word, head), max(word, head)
        from_left = (self._left < left) & (left < self._right) & (self._right < right)
        from_right = (left < self._left) & (self._left < right) & (right < self._right)
        if (from_left | from_right).any():
            return False
        tops = np.where(self._tops == word, self._tops[head], self._tops)
        of_heads = tops[self._heads]
        if left < tops[head] < right or ((self._left < of_heads) & (of_heads < self._right)).any():
            return False
        self._heads[word], self._left[word], self._right[word] = head, left, right
        self._tops = tops
        return True
