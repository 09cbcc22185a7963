"""Projectivity of trees and of single arcs."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def is_projective(heads: Sequence[int]) -> bool:
    """Whether every word between a head and its dependent descends from that head.

    heads[0] is the head of word 1. ROOT is left of word 1, so an arc over the root word crosses its arc.
    One pass with a stack of open arcs suffices: without crossings, arcs close in the reverse of the order in
    which they open.
    """
    # For ROOT and each word: the left ends of arcs to the left, and the right ends of arcs to the right.
    closing: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    opening: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for dependent, head in enumerate(heads, 1):
        left, right = min(head, dependent), max(head, dependent)
        opening[left].append(right)
        closing[right].append(left)
    open_ends: list[int] = []
    for word in range(len(heads) + 1):
        for _ in closing[word]:
            if open_ends.pop() != word:
                return False
        open_ends.extend(sorted(opening[word], reverse=True))
    return True


def crossing(heads: Sequence[int]) -> list[int]:
    """The dependents of all non-projective arcs, from left to right.

    An arc is non-projective if a word between its ends does not descend from its head.
    """
    if is_projective(heads):
        return []
    first, last = _spans_in_depth_first_order(heads)
    lowest, highest = _Extremes(first, min), _Extremes(first, max)
    found = []
    for dependent, head in enumerate(heads, 1):
        start, end = min(head, dependent) + 1, max(head, dependent)
        if start < end and (lowest.of(start, end) < first[head] or highest.of(start, end) > last[head]):
            found.append(dependent)
    return found


class _Extremes:
    """A sparse table, which gives the minimum or maximum of any slice in constant time."""

    def __init__(self, numbers: Sequence[int], choose: Callable[[int, int], int]):
        self._choose, self._tables = choose, [list(numbers)]
        while (width := 1 << len(self._tables)) <= len(numbers):
            table = self._tables[-1]
            self._tables.append(list(map(choose, table, table[width // 2 :])))

    def of(self, start: int, end: int) -> int:
        """The extreme of numbers[start:end], which must not be empty."""
        level = (end - start).bit_length() - 1
        return self._choose(self._tables[level][start], self._tables[level][end - (1 << level)])


def children_of(heads: Sequence[int]) -> list[list[int]]:
    """For ROOT and each word, its dependents from left to right."""
    children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for dependent, head in enumerate(heads, 1):
        children[head].append(dependent)
    return children


def _spans_in_depth_first_order(heads: Sequence[int]) -> tuple[list[int], list[int]]:
    """For ROOT and each word, its depth-first number and the greatest number among its descendants."""
    children = children_of(heads)
    first, last = [0] * len(children), [0] * len(children)
    number, waiting = 0, [0]
    while waiting:
        word = waiting.pop()
        if word < 0:
            last[~word] = number - 1
            continue
        first[word], number = number, number + 1
        waiting.append(~word)
        waiting += children[word]
    return first, last
