"""Evaluation of a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parser.evaluation.scores import Scores, score
from parser.evaluation.text_scores import TextScores, gold_text, parsed_text, score_text
from parser.parsing.model import Model
from parser.parsing.parse import BATCH_SIZE, parse_stream
from parser.text.parts import TextPart
from parser.text.reading import TextReader, read_parts
from parser.treebank.sentence import Sentence


def evaluate(
    model: Model, gold: Sequence[Sentence], batch_size: int = BATCH_SIZE, punctuation: bool = True
) -> Scores:
    """Parse sentences and score the trees against their gold trees."""
    trees = (tree for _, tree in parse_stream(model, gold, batch_size))
    return score(gold, trees, punctuation)


def evaluate_text(
    model: Model,
    reader: TextReader,
    text: Iterable[TextPart],
    gold: Iterable[Sentence],
    batch_size: int = BATCH_SIZE,
) -> TextScores:
    """Parse a text and score its tokens, sentences, words, tags and trees against the gold ones.

    Raises ValueError if it is not the text of the gold trees.
    """
    parsed = parse_stream(model, read_parts(reader, text), batch_size)
    return score_text(gold_text(gold), parsed_text(parsed))
