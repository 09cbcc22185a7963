"""What rounding products to 8 bits changes in the trees of a treebank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parser.evaluation.scores import score
from parser.models.model import ArrayModel, with_int8
from parser.parsing.engine import parse
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

LEAST_EQUAL_TAGS = 99.8
"""In percent."""
MOST_LOST_LAS = 0.1
"""In percentage points."""


class Rounding(NamedTuple):
    las: float
    """In percent, by rounded products."""
    exact_las: float
    """In percent, by products of float32."""
    equal_tags: dict[str, float]
    """For each predicted column, the words that get the same value, in percent."""

    @classmethod
    def of(cls, model: ArrayModel, gold: Sequence[Sentence]) -> Rounding:
        """gold: the sentences of a treebank with trees."""
        exact, rounded = (parse(with_int8(model, int8), gold) for int8 in (False, True))
        las, exact_las = (score(gold, trees).las for trees in (rounded, exact))
        tags = {name: _equal(name, exact, rounded) for name in model.predicted_columns}
        return cls(las, exact_las, tags)

    @property
    def fault(self) -> str | None:
        """Why the model should not round its products; None if it can."""
        if self.exact_las - self.las > MOST_LOST_LAS:
            return f"LAS is {self.las:.2f} instead of {self.exact_las:.2f}"
        for name, equal in self.equal_tags.items():
            if equal < LEAST_EQUAL_TAGS:
                return (
                    f"only {equal:.2f} % of {name.upper()} are the same, where {LEAST_EQUAL_TAGS} % should be"
                )
        return None

    def __str__(self) -> str:
        tags = ", ".join(f"{equal:.2f} % of {name.upper()}" for name, equal in self.equal_tags.items())
        return f"LAS is {self.las:.2f} instead of {self.exact_las:.2f}{tags and f'; {tags} are the same'}"


def _equal(name: str, exact: Sequence[ParsedTree], rounded: Sequence[ParsedTree]) -> float:
    pairs = [
        pair
        for one, other in zip(exact, rounded, strict=True)
        for pair in zip(one.tags[name], other.tags[name], strict=True)
    ]
    return 100 * sum(one == other for one, other in pairs) / len(pairs)
