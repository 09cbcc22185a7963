"""Which of a tree's arcs cross others."""

from __future__ import annotations

from collections.abc import Sequence


def is_projective(heads: Sequence[int]) -> bool:
    """Whether every word between a head and its dependent descends from that head.

    heads[0] is the head of word 1. ROOT lies left of word 1, so an arc over the root word crosses its arc.
    A stack of open arcs finds a crossing in one pass: arcs must close in the reverse of the order in which
    they open.
    """
    closing: list[list[int]] = [[] for _ in range(len(heads) + 1)]  # for each word, arcs that end at it
    opening: list[list[int]] = [[] for _ in range(len(heads) + 1)]  # for each word, ends of those it begins
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
    """The dependents of the arcs between whose ends there are words that do not descend from the head.

    heads as above; from left to right.
    """
    if is_projective(heads):
        return []
    first, last = _spans_in_depth_first_order(heads)
    return [
        dependent
        for dependent, head in enumerate(heads, 1)
        if any(
            not first[head] <= first[word] <= last[head]
            for word in range(min(head, dependent) + 1, max(head, dependent))
        )
    ]


def children_of(heads: Sequence[int]) -> list[list[int]]:
    """Of ROOT and each word, from left to right."""
    children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for dependent, head in enumerate(heads, 1):
        children[head].append(dependent)
    return children


def _spans_in_depth_first_order(heads: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of ROOT and each word, its own number and the last of those below it."""
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
