"""Gold trees, and the LAS of other programs: labels without subtypes, punctuation included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Tree(NamedTuple):
    forms: list[str]
    heads: list[int]
    labels: list[str]


def trees(text: str) -> list[Tree]:
    """The trees of a CoNLL-U text, without multiword tokens and empty nodes."""
    found = []
    for block in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        words = [row for row in rows if row[0].isdecimal()]
        heads, labels = [int(row[6]) for row in words], [row[7].split(":")[0] for row in words]
        found.append(Tree([row[1] for row in words], heads, labels))
    return found


def las(gold: Sequence[Tree], parsed: Sequence[Tree]) -> float:
    """Labelled attachment score in percent."""
    right = sum(
        arc == own_arc
        for tree, own in zip(gold, parsed, strict=True)
        for arc, own_arc in zip(
            zip(tree.heads, tree.labels, strict=True), zip(own.heads, own.labels, strict=True), strict=True
        )
    )
    return 100 * right / sum(len(tree.forms) for tree in gold)
