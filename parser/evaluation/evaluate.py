"""Evaluation of a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parser.evaluation.scores import Scores, score
from parser.evaluation.text_scores import TextScores, gold_text, parsed_text, score_text
from parser.parsing import BATCH_SIZE
from parser.parsing.model import Model
from parser.parsing.parse import parse_stream
from parser.treebank.sentence import Sentence


def evaluate(
    model: Model, gold: Sequence[Sentence], batch_size: int = BATCH_SIZE, punctuation: bool = True
) -> Scores:
    """Parse sentences and score the trees against their gold trees."""
    trees = (tree for _, tree in parse_stream(model, gold, batch_size))
    return score(gold, trees, punctuation)


def evaluate_text(
    model: Model,
    sentences: Iterable[Sentence],
    gold: Iterable[Sentence],
    batch_size: int = BATCH_SIZE,
) -> TextScores:
    """Parse the sentences that were found in a text, and score tokens, sentences, words, tags and trees.

    Raises OtherTextError if it is not the text of the gold trees.
    """
    parsed = parse_stream(model, sentences, batch_size)
    return score_text(gold_text(gold), parsed_text(parsed))
