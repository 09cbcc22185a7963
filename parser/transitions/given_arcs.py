"""Given arcs of a tree, and which transitions keep all of them, and some root, possible.

A transition does so if none of its obstacles is true. In every state reached by such transitions alone, all
given arcs can still be made together. So a given head to the left of B0 is on the stack, and so is a given
dependent of B0 to the left of it that has no head yet; no search is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parser.transitions.system import Obstacle
from parser.treebank.partial_trees import words_above_last
from parser.treebank.sentence import NO_HEAD

MAY_BE_ROOT, ROOT_AFTER, ABOVE_LAST = 1, 2, 4
"""Bits of `WordFacts.flags`: the word may be the root; a word after it may be; the last word is below it."""


class WordFacts(NamedTuple):
    """The given facts about a word."""

    head: int = NO_HEAD
    first_dependent: int = 0
    """The first given dependent if it is to the left of the word; else 0."""
    last_dependent: int = 0
    """The last given dependent; 0 for none."""
    flags: int = MAY_BE_ROOT | ROOT_AFTER


NOTHING_GIVEN = WordFacts()
BITS = tuple(map(int, Obstacle))


def word_facts(heads: Sequence[int], may_be_root: Sequence[bool]) -> list[WordFacts]:
    """The facts of each word. heads: from word 1; `NO_HEAD` if not given. may_be_root: true for some word."""
    first, last = [0] * (len(heads) + 1), [0] * (len(heads) + 1)
    for word, head in enumerate(heads, 1):
        if head > 0:
            last[head] = word
            first[head] = first[head] or (word if word < head else 0)
    last_root = max(word for word, may_be in enumerate(may_be_root, 1) if may_be)
    above_last = words_above_last(heads)
    return [
        WordFacts(
            head,
            first[word],
            last[word],
            MAY_BE_ROOT * may_be_root[word - 1]
            | ROOT_AFTER * (word < last_root)
            | ABOVE_LAST * above_last[word - 1],
        )
        for word, head in enumerate(heads, 1)
    ]


def obstacles_alone(
    stack: Sequence[int], front: int, heads: Sequence[int], headless: int, facts: Sequence[WordFacts]
) -> int:
    """The sum of all obstacles that are true for one sentence; see `obstacles`.

    heads, facts: for ROOT, each word, and the end of the buffer.
    """
    s0, s1, b0, bottom = stack[-1], stack[-2] if len(stack) > 1 else 0, front, stack[1] if stack[1:] else 0
    of_s0, of_b0 = facts[s0], facts[b0]
    is_on_stack = NO_HEAD < of_b0.head < b0
    none_after = not of_b0.flags & ROOT_AFTER
    no_root = not of_b0.flags & MAY_BE_ROOT
    above_last = bool(of_b0.flags & ABOVE_LAST)
    lowest = facts[bottom or b0]
    true = (
        of_s0.head not in (NO_HEAD, b0),
        of_s0.head not in (NO_HEAD, s1),
        of_s0.last_dependent >= b0,
        of_b0.head not in (NO_HEAD, s0),
        is_on_stack,
        is_on_stack and of_b0.head != s0,
        of_b0.first_dependent > 0 and heads[of_b0.first_dependent] == NO_HEAD,
        len(stack) == 2 and none_after and no_root,
        none_after and not (bottom and heads[bottom] == 0),
        none_after and not lowest.flags & MAY_BE_ROOT,
        no_root,
        above_last,
        above_last and headless > 0,
    )
    return sum(bit for fact, bit in zip(true, BITS, strict=True) if fact)
