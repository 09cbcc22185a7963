"""What is wanted of the tree of a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from parser.parsing.constraints import UNCONSTRAINED, Constraints


@dataclass(frozen=True)
class ParseOptions:
    probabilities: bool = False
    """Whether it has those of its arcs."""
    constraints: Constraints = UNCONSTRAINED
    """What it must have."""
    alternatives: int = 0
    """How many heads of each word it tells, if the model scores arcs."""


TREE_ALONE = ParseOptions()
