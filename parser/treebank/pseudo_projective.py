"""Pseudo-projective trees (Nivre & Nilsson 2005): crossing arcs lifted for training, put back after parsing.

The head scheme: a lifted word's label names, after the mark, the label of the word that was its head.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from parser.treebank.labels import MARK
from parser.treebank.projectivity import children_of, crossing
from parser.treebank.sentence import Sentence


def projectivized(sentence: Sentence) -> Sentence:
    """The sentence with a projective tree; itself, if it has one."""
    heads, labels = lift(sentence.heads, sentence.labels)
    return sentence if heads == sentence.heads else replace(sentence, heads=heads, labels=labels)


def projectivize(heads: Sequence[int], labels: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The shortest crossing arc goes up to its head's head, until none crosses. heads[0] is word 1's.

    The leftmost of equally short ones first. A crossing arc never leaves the root word, so there is a head's
    head, and the root stays.
    """
    lifting = _Lifting(heads)
    lifting.run()
    marked = [
        label + MARK + labels[head - 1] if head != lifted_head else label
        for label, head, lifted_head in zip(labels, heads, lifting.heads, strict=True)
    ]
    return tuple(lifting.heads), tuple(marked)


class _Lifting:
    """A tree whose crossing arcs are lifted one by one.

    Lifting a word takes what is below it from its old head and from no other word, so that only the arcs of
    that head may begin to cross; and an arc that crosses does so until it is lifted itself.
    """

    def __init__(self, heads: Sequence[int]):
        self.heads = list(heads)
        self._children = children_of(heads)
        self._crossing = set(crossing(heads))
        self._witness: dict[int, int] = {}  # of an arc that was lifted: a word that showed that it crosses
        self._shortest_first = [(self._length(word), word) for word in self._crossing]
        heapify(self._shortest_first)

    def run(self) -> None:
        while self._shortest_first:
            _, word = heappop(self._shortest_first)
            self._crossing.remove(word)
            self._lift(word)

    def _lift(self, word: int) -> None:
        head = self.heads[word - 1]
        self._children[head].remove(word)
        left, right = self._nearest_below(word, head)
        for sibling in self._children[head]:
            if sibling < left or sibling > right:
                self._note(sibling)
        self.heads[word - 1] = self.heads[head - 1]
        self._children[self.heads[word - 1]].append(word)
        if self._crosses(word):
            self._note(word)

    def _nearest_below(self, word: int, head: int) -> tuple[int, int]:
        """Of the word and all below it, the next to the head on its left and on its right."""
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
        """Whether its arc passes over a word that is not below its head."""
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

    def _note(self, word: int) -> None:
        if word not in self._crossing:
            self._crossing.add(word)
            heappush(self._shortest_first, (self._length(word), word))

    def _length(self, word: int) -> int:
        return abs(self.heads[word - 1] - word)


def deprojectivize(heads: Sequence[int], labels: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Marked words moved down again, and all marks taken away.

    A word moves to the first with the label that its mark names, looking level by level and from left to
    right below its head, but not below itself. It stays where there is none, and the root is never moved.
    The word that is nearest to the root at that time moves first.
    """
    if not any(MARK in label for label in labels):
        return tuple(heads), tuple(labels)
    found = list(heads)
    plain, marks = zip(*(label.partition(MARK)[::2] for label in labels), strict=True)
    known = set(plain)
    wanted = [mark if mark in known else None for mark in marks]  # of those that have yet to move
    children = children_of(heads)
    level = list(children[0])
    while level:  # who moves goes below a word of its level, so that the levels above stay
        staying = []
        for word in level:
            head = found[word - 1]
            label, wanted[word - 1] = wanted[word - 1], None
            if head and label is not None:
                found[word - 1] = _first_labelled(label, children, plain, word, head)
            if found[word - 1] == head:
                staying.append(word)
            else:
                children[head].remove(word)
                insort(children[found[word - 1]], word)
        level = [child for word in staying for child in children[word]]
    return tuple(found), plain


def _first_labelled(
    label: str, children: Sequence[Sequence[int]], labels: Sequence[str], word: int, head: int
) -> int:
    """Below the word's head; else that head."""
    level = children[head]
    while level:
        level = [other for other in level if other != word]
        for other in level:
            if labels[other - 1] == label:
                return other
        level = [child for other in level for child in children[other]]
    return head
