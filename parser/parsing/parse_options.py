"""What is wanted of the tree of a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from parser.parsing.constraints import UNCONSTRAINED, Constraints

MAX_TREES = 1_000
"""Of a sentence. Memory grows with them."""


@dataclass(frozen=True)
class ParseOptions:
    probabilities: bool = False
    """Whether it has those of its arcs."""
    constraints: Constraints = UNCONSTRAINED
    """What it must have."""
    alternatives: int = 0
    """How many heads of each word it tells, if the model scores arcs."""
    trees: int = 1
    """How many trees the sentence gets, found by a beam search, if there are so many."""

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be had, or not together."""
        if not 1 <= self.trees <= MAX_TREES:
            raise ValueError(f"{self.trees:,} trees of a sentence: it can have from 1 to {MAX_TREES:,}")
        if self.trees > 1 and (self.probabilities or self.alternatives):
            raise ValueError(
                "probabilities of arcs and alternatives are of one tree: ask for these, or for several trees"
            )

    @property
    def needs_scorers(self) -> bool:
        """Whether scorers of arcs are asked even where they change no trees."""
        return self.probabilities or self.alternatives > 0 or self.trees > 1


TREE_ALONE = ParseOptions()
