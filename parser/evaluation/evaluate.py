"""Scores of a trained model."""

from __future__ import annotations

from collections.abc import Sequence

from parser.evaluation.scores import Scores, score
from parser.parsing.model import Model
from parser.parsing.parse import BATCH_SIZE, parse_stream
from parser.treebank.sentence import Sentence


def evaluate(
    model: Model, gold: Sequence[Sentence], batch_size: int = BATCH_SIZE, punctuation: bool = True
) -> Scores:
    """Parse the sentences and compare with their own trees."""
    trees = (tree for _, tree in parse_stream(model, gold, batch_size))
    return score(gold, trees, punctuation)
