"""Options for parsing a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from parser.parsing.constraints import UNCONSTRAINED, Constraints

MAX_TREES = 1_000
"""Most trees of a sentence. The memory that is needed grows with them."""


@dataclass(frozen=True)
class ParseOptions:
    probabilities: bool = False
    """Whether to compute the probabilities of the arcs."""
    constraints: Constraints = UNCONSTRAINED
    """Conditions on the tree."""
    alternatives: int = 0
    """How many of the most probable heads of each word to return, if the model scores arcs."""
    trees: int = 1
    """How many trees to return, if there are that many. Several are found by a beam search."""

    def __post_init__(self) -> None:
        """Raises ValueError for impossible values and combinations."""
        if not 1 <= self.trees <= MAX_TREES:
            raise ValueError(f"{self.trees:,} trees of a sentence: it can have from 1 to {MAX_TREES:,}")
        if self.trees > 1 and (self.probabilities or self.alternatives):
            raise ValueError(
                "probabilities of arcs and alternatives are of one tree: ask for these, or for several trees"
            )

    @property
    def needs_scorers(self) -> bool:
        """Whether the scorers of arcs are needed even if they change no trees."""
        return self.probabilities or self.alternatives > 0 or self.trees > 1


TREE_ALONE = ParseOptions()
