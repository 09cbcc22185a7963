"""Pseudo-projective trees (Nivre & Nilsson 2005): crossing arcs lifted for training, put back after parsing.

The head scheme: a lifted word's label names, after the mark, the label of the word that was its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parser.treebank.labels import MARK
from parser.treebank.projectivity import children_of, crossing
from parser.treebank.sentence import Sentence


def lifted(sentence: Sentence) -> Sentence:
    """The sentence with a projective tree; itself, if it has one."""
    heads, labels = lift(sentence.heads, sentence.labels)
    return sentence if heads == sentence.heads else replace(sentence, heads=heads, labels=labels)


def lift(heads: Sequence[int], labels: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The shortest crossing arc goes up to its head's head, until none crosses. heads[0] is word 1's.

    The leftmost of equally short ones first. A crossing arc never leaves the root word, so there is a head's
    head, and the root stays.
    """
    found, marked = list(heads), list(labels)
    while dependents := crossing(found):
        dependent = min(dependents, key=lambda word: abs(found[word - 1] - word))
        head = found[dependent - 1]
        if marked[dependent - 1] == labels[dependent - 1]:
            marked[dependent - 1] += MARK + labels[head - 1]
        found[dependent - 1] = found[head - 1]
    return tuple(found), tuple(marked)


def restored(heads: Sequence[int], labels: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Marked words moved down again, and all marks taken away.

    A word moves to the first with the label that its mark names, looking level by level and from left to
    right below its head, but not below itself. It stays where there is none, and the root is never moved.
    The word that is nearest to the root at that time moves first.
    """
    if not any(MARK in label for label in labels):
        return tuple(heads), tuple(labels)
    found = list(heads)
    plain, wanted = zip(*(label.partition(MARK)[::2] for label in labels), strict=True)
    waiting = {word for word, label in enumerate(wanted, 1) if label and found[word - 1]}
    while waiting:
        word = next(word for word in _from_root(children_of(found)) if word in waiting)
        waiting.remove(word)
        found[word - 1] = _first_labelled(wanted[word - 1], found, plain, word)
    return tuple(found), plain


def _first_labelled(label: str, heads: Sequence[int], labels: Sequence[str], word: int) -> int:
    """Below the word's head; else that head."""
    children = children_of(heads)
    level = children[heads[word - 1]]
    while level:
        level = [other for other in level if other != word]
        for other in level:
            if labels[other - 1] == label:
                return other
        level = [child for other in level for child in children[other]]
    return heads[word - 1]


def _from_root(children: Sequence[Sequence[int]]) -> list[int]:
    """All words, level by level."""
    order = list(children[0])
    for word in order:
        order += children[word]
    return order
