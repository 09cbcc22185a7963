"""Parsing and scoring parts of a treebank, for `stack-parser evaluate --processes`."""

from __future__ import annotations

from typing import NamedTuple

from parser.batching.precision import Precision
from parser.evaluation.evaluate import evaluate
from parser.evaluation.scores import Scores
from parser.parsing.ensemble import ModelChoice
from parser.parsing.input_columns import Counts, column_counts
from parser.parsing.part_parser import model_of_worker
from parser.treebank.conllu import Roots
from parser.treebank.faults import Faults
from parser.treebank.parts import TreebankPart, read_part


class EvaluatedPart(NamedTuple):
    scores: Scores
    """Of the sentences before the first fault."""
    faults: Faults
    columns: dict[str, Counts]
    """The values of the columns that the model reads."""


class PartEvaluator:
    def __init__(
        self,
        models: ModelChoice,
        threads: int,
        precision: Precision,
        batch_size: int,
        roots: Roots,
        punctuation: bool,
    ):
        """roots: see `read_treebank`; punctuation: whether it is scored."""
        self._model = model_of_worker(models, threads, precision)
        self._batch_size, self._roots, self._punctuation = batch_size, roots, punctuation

    def run(self, part: TreebankPart) -> EvaluatedPart:
        gold, faults = read_part(part, tree=True, roots=self._roots)
        scores = evaluate(self._model, gold, self._batch_size, self._punctuation)
        columns = column_counts(self._model.vocabulary, self._model.settings.network.read_columns, gold)
        return EvaluatedPart(scores, faults, columns)
