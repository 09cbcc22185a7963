"""Projectivity of trees and arcs, and pseudo-projective parsing (Nivre & Nilsson 2005) by head encoding.

Before training, non-projective arcs are lifted, and the label of a lifted word is extended by the label of
its original head. After parsing, the extended labels are used to move these words back.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from parser.treebank.sentence import MARK, NO_HEAD, Sentence


def is_projective(heads: Sequence[int]) -> bool:
    """Whether every word between a head and its dependent descends from that head.

    heads[0] is the head of word 1; words without a head (NO_HEAD) are left out. ROOT is to the left of word
    1, so an arc over the root word crosses its arc.
    One pass with a stack of open arcs suffices: without crossings, arcs close in the reverse of the order in
    which they open.
    """
    # For ROOT and each word: the number of arcs to the left, and the right ends of arcs to the right.
    closing: list[int] = [0] * (len(heads) + 1)
    opening: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for dependent, head in enumerate(heads, 1):
        if head != NO_HEAD:
            opening[min(head, dependent)].append(max(head, dependent))
            closing[max(head, dependent)] += 1
    open_ends: list[int] = []
    for word, ends in enumerate(opening):
        for _ in range(closing[word]):
            if open_ends.pop() != word:
                return False
        open_ends.extend(sorted(ends, reverse=True))
    return True


def crossing(heads: Sequence[int]) -> list[int]:
    """The dependents of all non-projective arcs, from left to right.

    An arc is non-projective if a word between its ends does not descend from its head.
    """
    if is_projective(heads):
        return []
    first, last = _spans_in_depth_first_order(heads)
    lowest, highest = _Extremes(first, min), _Extremes(first, max)
    dependents = []
    for dependent, head in enumerate(heads, 1):
        start, end = min(head, dependent) + 1, max(head, dependent)
        if start < end and (lowest.of(start, end) < first[head] or highest.of(start, end) > last[head]):
            dependents.append(dependent)
    return dependents


class _Extremes:
    """A sparse table that gives the minimum or maximum of any slice in constant time."""

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


def projectivized(sentence: Sentence) -> Sentence:
    """The sentence with a projective tree; the same object if its tree is projective."""
    heads, labels = projectivize(sentence.heads, sentence.labels)
    return sentence if heads == sentence.heads else replace(sentence, heads=heads, labels=labels)


def projectivize(heads: Sequence[int], labels: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Lift non-projective arcs until the tree is projective; return the heads and the extended labels.

    Lifting attaches a word to the head of its head. The shortest arc is lifted first, and the leftmost of
    equally short ones. The dependents of the root word are never lifted, so the root stays. heads[0] is the
    head of word 1.
    """
    lifting = _Lifting(heads)
    lifting.run()
    marked = [
        label + MARK + labels[head - 1] if head != lifted_head else label
        for label, head, lifted_head in zip(labels, heads, lifting.heads, strict=True)
    ]
    return tuple(lifting.heads), tuple(marked)


class _Lifting:
    """A tree whose non-projective arcs are lifted one at a time.

    Lifting a word removes its subtree from the descendants of its old head, but of no other word. So only the
    arcs from that head can become non-projective. An arc stays non-projective until it is lifted.
    """

    def __init__(self, heads: Sequence[int]):
        self.heads = list(heads)
        self._children = children_of(heads)
        self._crossing = set(crossing(heads))
        # For a dependent: a word between its head and itself that did not descend from the head when checked.
        self._witness: dict[int, int] = {}
        self._shortest_first = [(self._length(word), word) for word in self._crossing]
        heapify(self._shortest_first)

    def run(self) -> None:
        while self._shortest_first:
            _, word = heappop(self._shortest_first)
            self._crossing.remove(word)
            head = self.heads[word - 1]
            self._children[head].remove(word)
            left, right = self._nearest_below(word, head)
            for sibling in self._children[head]:
                if sibling < left or sibling > right:
                    self._add_crossing(sibling)
            self.heads[word - 1] = self.heads[head - 1]
            self._children[self.heads[word - 1]].append(word)
            if self._crosses(word):
                self._add_crossing(word)

    def _nearest_below(self, word: int, head: int) -> tuple[int, int]:
        """The words closest to the head, on its left and on its right, in the subtree of `word`."""
        left, right, waiting = 0, len(self.heads) + 1, [word]
        while waiting:
            below = waiting.pop()
            waiting += self._children[below]
            if below < head:
                left = max(left, below)
            else:
                right = min(right, below)
        return left, right

    def _crosses(self, word: int) -> bool:
        """Whether the arc to the word is non-projective: a word in between does not descend from the head."""
        head = self.heads[word - 1]
        start, end = min(head, word) + 1, max(head, word)
        witness = self._witness.get(word, 0)
        if start <= witness < end and not self._is_below(witness, head):
            return True
        below = {head}
        for between in range(start, end):
            path, above = [], between
            while above and above not in below:
                path.append(above)
                above = self.heads[above - 1]
            if not above:
                self._witness[word] = between
                return True
            below.update(path)
        return False

    def _is_below(self, word: int, head: int) -> bool:
        while word and word != head:
            word = self.heads[word - 1]
        return bool(word)

    def _add_crossing(self, word: int) -> None:
        if word not in self._crossing:
            self._crossing.add(word)
            heappush(self._shortest_first, (self._length(word), word))

    def _length(self, word: int) -> int:
        return abs(self.heads[word - 1] - word)


def deprojectivize(heads: Sequence[int], labels: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Move lifted words back and remove the extensions of the labels.

    The new head of a lifted word is the first descendant of its present head with the label of the original
    head, in breadth-first order from left to right; the subtree of the word itself is skipped. If there is
    none, the word stays. The root is never moved. Words closer to the root are moved first.
    """
    if not any(MARK in label for label in labels):
        return tuple(heads), tuple(labels)
    new_heads = list(heads)
    word_labels, marks = zip(*(label.partition(MARK)[::2] for label in labels), strict=True)
    known = set(word_labels)
    wanted = [mark if mark in known else None for mark in marks]  # None once a word has been visited
    children = children_of(heads)
    level = list(children[0])
    while level:  # a moved word goes to a deeper level, so the levels above do not change
        staying = []
        for word in level:
            head = new_heads[word - 1]
            label, wanted[word - 1] = wanted[word - 1], None
            if head and label is not None:
                new_heads[word - 1] = _first_labelled(label, children, word_labels, word, head)
            if new_heads[word - 1] == head:
                staying.append(word)
            else:
                children[head].remove(word)
                insort(children[new_heads[word - 1]], word)
        level = [child for word in staying for child in children[word]]
    return tuple(new_heads), word_labels


def _first_labelled(
    label: str, children: Sequence[Sequence[int]], labels: Sequence[str], word: int, head: int
) -> int:
    """The first descendant of `head` with the label, in breadth-first order without `word`; else `head`."""
    level = children[head]
    while level:
        level = [other for other in level if other != word]
        for other in level:
            if labels[other - 1] == label:
                return other
        level = [child for other in level for child in children[other]]
    return head
