"""The scores on the sets of several treebanks, each of which counts alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from parser.evaluation.measures import MEASURES, TEXT_MEASURES, Measure
from parser.evaluation.scores import Scores
from parser.evaluation.text_scores import TextScores
from parser.models.model import Model
from parser.parsing.engine import parse_stream
from parser.treebank.sentence import Sentence


@dataclass
class TreebankScores:
    of_treebanks: dict[str, Scores] = field(default_factory=dict)
    """By the treebank's name, which is empty for sentences that were not read as part of one."""

    def __add__(self, other: TreebankScores) -> TreebankScores:
        summed = dict(self.of_treebanks)
        for name, scores in other.of_treebanks.items():
            summed[name] = summed.get(name, Scores()) + scores
        return TreebankScores(summed)

    def percent(self, measure: Measure) -> float:
        """The mean over the treebanks; 0 without any."""
        return fmean(each.percent(measure) for each in self.of_treebanks.values() or [Scores()])

    @property
    def las(self) -> float:
        return self.percent("las")

    def as_dict(self) -> dict[str, Any]:
        """Measures are means over the treebanks. Other figures are those of all sentences together."""
        of_all = sum(self.of_treebanks.values(), Scores()).as_dict()
        if len(self.of_treebanks) < 2:
            return of_all
        of_treebanks = {
            name: {measure: each.percent(measure) for measure in MEASURES}
            for name, each in self.of_treebanks.items()
        }
        return {
            **of_all,
            **{measure: self.percent(measure) for measure in MEASURES},
            "treebanks": of_treebanks,
        }


def means_of_texts(of_treebanks: Mapping[str, TextScores]) -> dict[str, Any]:
    """The scores on the raw texts of treebanks: their means, and those of each if there are several."""
    scores = {name: each.as_dict() for name, each in of_treebanks.items()}
    if len(scores) == 1:
        return next(iter(scores.values()))
    return {
        **{name: fmean(each[name] for each in scores.values()) for name in TEXT_MEASURES},
        "treebanks": scores,
    }


def evaluate_treebanks(model: Model, gold: Sequence[Sentence]) -> TreebankScores:
    """Parse the sentences of one or several treebanks together, and score those of each treebank."""
    scores: dict[str, Scores] = {}
    for sentence, (_, tree) in zip(gold, parse_stream(model, gold), strict=True):
        of_treebank = scores.setdefault(sentence.treebank, Scores())
        of_treebank.add(sentence, tree.heads, tree.labels, tags=tree.tags, graph=tree.graph)
    return TreebankScores(scores)
