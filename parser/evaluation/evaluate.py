"""Scores of a trained model."""

from __future__ import annotations

from collections.abc import Sequence

from parser.evaluation.scores import Scores, score
from parser.parsing.model import Model
from parser.parsing.slots import SLOTS, parse_stream
from parser.treebank.sentence import Sentence


def evaluate(model: Model, gold: Sequence[Sentence], slots: int = SLOTS, punctuation: bool = True) -> Scores:
    """Parse the sentences and compare with their own trees."""
    trees = (tree for _, tree in parse_stream(model, gold, slots))
    return score(gold, trees, punctuation)
