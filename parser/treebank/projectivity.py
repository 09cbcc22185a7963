"""Whether a tree's arcs cross."""

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
