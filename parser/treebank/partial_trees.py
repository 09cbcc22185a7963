"""Partially given trees: whether a projective tree can contain their arcs, and which words can be its root.

Heads that are not given are `NO_HEAD`; heads[0] is the head of word 1, and ROOT is to the left of word 1.
Given arcs are part of some projective tree with a single root if and only if there is no cycle, ROOT has at
most one dependent, no two arcs cross, and no arc spans the topmost ancestor of its own head.
`tests/treebank/test_partial_trees.py` checks this by enumerating all trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parser.treebank.conllu import Roots, read_treebank
from parser.treebank.conllu_faults import Fault, head_faults
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import BLANK, NO_HEAD, Sentence


def read_partial_treebank(path: str, roots: Roots = "refuse") -> list[Sentence]:
    """Like `read_treebank`, for a file in which HEAD and DEPREL may be `_`.

    Labels without heads are dropped, since their arcs are unknown.
    """
    sentences = read_treebank(path, roots, known_faults)
    return [with_known(sentence, [head != NO_HEAD for head in sentence.heads]) for sentence in sentences]


def can_be_projective(heads: Sequence[int]) -> bool:
    """Whether a projective tree can contain all given arcs. heads: without cycles or several roots."""
    if not is_projective(heads):
        return False
    tops = tops_of(heads)
    return not any(min(word, head) < tops[head] < max(word, head) for word, head in arcs_of(heads))


def possible_roots(heads: Sequence[int]) -> list[bool]:
    """For each word, whether it is the root of a projective tree with all arcs; such a tree must exist."""
    if 0 in heads:
        return [head == 0 for head in heads]
    changes = [0] * (len(heads) + 2)
    for word, head in arcs_of(heads):
        changes[min(word, head) + 1] += 1
        changes[max(word, head)] -= 1
    arcs_over, may_be_root = 0, []
    for word, head in enumerate(heads, 1):
        arcs_over += changes[word]
        may_be_root.append(head == NO_HEAD and not arcs_over)
    return may_be_root


def words_above_last(heads: Sequence[int]) -> list[bool]:
    """For each word, whether it is the last word or above the last word by given arcs."""
    is_above = [False] * len(heads)
    word = len(heads)
    while word > 0:
        is_above[word - 1] = True
        word = heads[word - 1]
    return is_above


def known_faults(sentence: Sentence) -> list[Fault]:
    """The reasons why no tree can contain all known heads of a sentence."""
    lines = [sentence.line + index for index in sentence.word_lines]
    return list(head_faults(sentence.heads, lines, sentence.identifier))


def with_known(sentence: Sentence, words: Sequence[bool]) -> Sentence:
    """The sentence with the heads and labels of some words only. words: whether each word keeps them."""
    heads = (head if known else NO_HEAD for head, known in zip(sentence.heads, words, strict=True))
    labels = (label if known else BLANK for label, known in zip(sentence.labels, words, strict=True))
    return replace(sentence, heads=tuple(heads), labels=tuple(labels))


def put_back(
    heads: Sequence[int], labels: Sequence[str], given: Sequence[int]
) -> tuple[list[int], list[str]]:
    """The tree with all given heads, including those that it does not have.

    If a word would get a head that is below it, the word between the two that is nearest to it and may move
    takes its place. Labels stay with their words, but a word that replaces the root exchanges labels with it.
    """
    new_heads, new_labels = list(heads), list(labels)
    for word, head in enumerate(given, 1):
        if head in (NO_HEAD, new_heads[word - 1]):
            continue
        above, moving = head, 0
        while above not in (0, word):
            if new_heads[above - 1] != given[above - 1]:
                moving = above
            above = new_heads[above - 1]
        if above:
            new_heads[moving - 1] = new_heads[word - 1]
            if not new_heads[word - 1]:
                both = word - 1, moving - 1
                new_labels[both[0]], new_labels[both[1]] = new_labels[both[1]], new_labels[both[0]]
        new_heads[word - 1] = head
    return new_heads, new_labels


def arcs_of(heads: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of a word and its head, for all words with given heads."""
    return [(word, head) for word, head in enumerate(heads, 1) if head != NO_HEAD]


def tops_of(heads: Sequence[int]) -> list[int]:
    """For ROOT and each word, the topmost word above it, or ROOT; the word itself if it has no head."""
    tops = [0] + [NO_HEAD] * len(heads)
    for start in range(1, len(heads) + 1):
        way, word = [], start
        while tops[word] == NO_HEAD and heads[word - 1] != NO_HEAD:
            way.append(word)
            word = heads[word - 1]
        top = word if tops[word] == NO_HEAD else tops[word]
        for passed in (*way, word):
            tops[passed] = top
    return tops
