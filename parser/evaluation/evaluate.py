"""Evaluation of a trained model, in one process, or in several that score parts of a treebank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from parser.evaluation.parsed_text import gold_text, parsed_text
from parser.evaluation.scores import Scores, score
from parser.evaluation.text_scores import TextScores, score_text
from parser.models.column_shares import Counts, column_counts
from parser.models.loading import ModelChoice, load_models
from parser.models.model import Model
from parser.parsing import BATCH_SIZE
from parser.parsing.engine import parse_stream
from parser.treebank.conllu import Roots, TreebankPart, read_part
from parser.treebank.conllu_faults import Faults
from parser.treebank.sentence import Sentence


def evaluate(
    model: Model, gold: Sequence[Sentence], batch_size: int = BATCH_SIZE, punctuation: bool = True
) -> Scores:
    """Parse sentences and score the trees against their gold trees."""
    trees = (tree for _, tree in parse_stream(model, gold, batch_size))
    return score(gold, trees, punctuation)


def evaluate_text(
    model: Model, sentences: Iterable[Sentence], gold: Iterable[Sentence], batch_size: int = BATCH_SIZE
) -> TextScores:
    """Parse the sentences found in a text, and score tokens, sentences, words, tags and trees.

    Raises OtherTextError if the text is not that of the gold trees.
    """
    parsed = parse_stream(model, sentences, batch_size)
    return score_text(gold_text(gold), parsed_text(parsed))


class EvaluatedPart(NamedTuple):
    scores: Scores
    """The scores of the sentences before the first fault."""
    faults: Faults
    columns: dict[str, Counts]
    """The values of the columns that the model reads."""


class PartEvaluator:
    def __init__(
        self,
        *,
        models: ModelChoice,
        batch_size: int,
        roots: Roots,
        punctuation: bool,
    ):
        """roots: see `read_treebank`. punctuation: whether punctuation is scored."""
        self._model = load_models(models)
        self._batch_size, self._roots, self._punctuation = batch_size, roots, punctuation

    def run(self, part: TreebankPart) -> EvaluatedPart:
        gold, faults = read_part(part, tree=True, roots=self._roots)
        scores = evaluate(self._model, gold, self._batch_size, self._punctuation)
        return EvaluatedPart(scores, faults, column_counts(self._model.read_lexicons, gold))
