"""What a parser says of a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Arcs(NamedTuple):
    """What was found for a sentence, in numbers."""

    heads: list[int]
    labels: list[int]
    probabilities: list[float]
    """Empty unless asked for."""
    score: float | None = None
    """Of one of several trees: the mean log probability of its transitions."""


class Alternative(NamedTuple):
    """An arc that a word may have, in the tree or not."""

    head: int
    label: str
    probability: float
    """Of the head, by the scorers of arcs alone."""


class ParsedTree(NamedTuple):
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    """Of the labelled arc to each word, see `ArcProbabilities`; with a scorer of arcs, the mean with its own;
    calibrated, if the model is. 1 where head and label are given and kept. None unless requested."""
    tags: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """By column (upos, xpos, feats, lemma): the predicted values of all words."""
    violations: tuple[str, ...] = ()
    """Of each word the constraints that could not be kept there, separated by commas; empty if all were."""
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    """Of each word the most probable heads. Empty unless requested, and of sentences that are too long for
    the scorers of arcs."""
    score: float | None = None
    """The mean log probability of its transitions, to which that of its arcs by the scorers is added. None
    unless several trees are requested."""
    others: tuple[ParsedTree, ...] = ()
    """The next best trees, as many as are requested or found."""
