"""The result of parsing a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from parser.enhanced.graph import Graph

if TYPE_CHECKING:
    from parser.runtime.arcs import SecondOpinion


class Arcs(NamedTuple):
    """The arcs that were found for a sentence, as numbers."""

    heads: list[int]
    labels: list[int]
    probabilities: list[float]
    """Empty unless requested."""
    score: float | None = None
    """The score of one of several trees: the mean log probability of its transitions."""


class Alternative(NamedTuple):
    """A possible arc to a word, whether in the tree or not."""

    head: int
    label: str
    probability: float
    """The probability of the head, by the scorers of arcs alone."""


class ParsedTree(NamedTuple):
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    """The probability of the labelled arc to each word, see `ArcProbabilities`. With a scorer of arcs, it is
    the mean with the scorer's probability. It is calibrated if the model is, and 1 if head and label are
    given and kept. None unless requested."""
    tags: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The predicted values of all words, by column (upos, xpos, feats, lemma)."""
    tag_probabilities: Mapping[str, tuple[float, ...]] = MappingProxyType({})
    """The probabilities of `tags`, calibrated if the model is. Empty unless requested."""
    violations: tuple[str, ...] = ()
    """The constraints that are broken at each word, separated by commas; empty if none is broken."""
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    """The most probable heads of each word. Empty unless requested, and for sentences that are too long for
    the scorers of arcs."""
    score: float | None = None
    """The mean log probability of the tree's transitions, plus that of its arcs by the scorers. None unless
    several trees are requested."""
    others: tuple[ParsedTree, ...] = ()
    """The next best trees, as many as are requested or found."""
    graph: Graph | None = None
    """The enhanced dependencies; None if the model has not learned any."""


def best_of(trees: Sequence[ParsedTree], count: int, opinion: SecondOpinion | None) -> list[ParsedTree]:
    """At most `count` different trees, the best first. Of equal trees, the best score counts.

    opinion: that of the scorers of arcs, which affects scores and order of the chosen trees, not the choice.
    """
    best: dict[tuple[tuple[int, ...], tuple[str, ...]], ParsedTree] = {}
    for tree in sorted(trees, key=_score, reverse=True):
        best.setdefault((tree.heads, tree.labels), tree)
    chosen = list(best.values())[:count]
    if opinion:
        means = (float(opinion.of_arcs(tree.heads).mean()) for tree in chosen)
        chosen = [tree._replace(score=_score(tree) + mean) for tree, mean in zip(chosen, means, strict=True)]
    return sorted(chosen, key=_score, reverse=True)


def _score(tree: ParsedTree) -> float:
    return tree.score or 0.0
