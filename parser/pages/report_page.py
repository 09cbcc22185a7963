"""The page of `evaluate --report`: the scores of a parser and its errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from parser.evaluation.calibration import Confidence
from parser.evaluation.errors import GROUPINGS, Errors
from parser.evaluation.measures import MEASURES
from parser.evaluation.report import meanings
from parser.pages.page import rendered
from parser.pages.report_confidence import confidence_part
from parser.pages.trees_page import tree_data
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.columns import WORD_COLUMNS
from parser.treebank.sentence import Sentence

PAIRS_SHOWN, SENTENCES_SHOWN = 25, 20


def report_page(
    title: str,
    errors: Errors,
    gold: Sequence[Sentence],
    trees: Sequence[ParsedTree],
    predicted: Collection[str],
    curves: bytes | str,
    confidences: Mapping[str, Confidence],
) -> str:
    """Return the page as an HTML document.

    predicted: the columns that the parser predicts. curves: the SVG of the learning curves, or the reason why
    there are none. confidences: see `confidence_part`.
    """
    worst = errors.worst(SENTENCES_SHOWN)
    return rendered(
        "report_page.html",
        title=title,
        about=f"{errors.scores.sentences:,} sentences, {errors.scores.words:,} words",
        scores=list(_scores(errors, predicted)),
        confidence=confidence_part(confidences),
        curves=curves,
        groups={grouping: list(_groups(errors, grouping)) for grouping in GROUPINGS},
        labels=list(_pairs(errors.labels)),
        head_tags=list(_pairs(errors.head_tags)),
        worst=[_heading(errors, gold, number) for number in worst],
        trees={"worst": [drawn(gold[number], trees[number]) for number in worst]},
    )


def drawn(gold: Sentence, tree: ParsedTree) -> dict[str, object]:
    """Return the data for drawing a parsed sentence and its differences from the gold tree."""
    tags: dict[str, Any] = {WORD_COLUMNS[name].attribute: values for name, values in tree.tags.items()}
    parsed = replace(gold, heads=tree.heads, labels=tree.labels, **tags)
    return tree_data(parsed, gold, tree.probabilities or ())


def _heading(errors: Errors, gold: Sequence[Sentence], number: int) -> str:
    words, wrong = errors.sentences[number]
    return f"{gold[number].identifier}, line {gold[number].line:,}: {wrong} of {words} words wrong"


def _scores(errors: Errors, predicted: Collection[str]) -> Iterator[tuple[str, str, str]]:
    for measure, meaning in meanings(predicted).items():
        yield MEASURES[measure], f"{errors.scores.percent(measure):.2f}", meaning
    yield "exact match", f"{errors.scores.exact:.2f}", "sentences without an error"


def _groups(errors: Errors, grouping: str) -> Iterator[tuple[str, str, str, str, float]]:
    """Yield the rows of a grouping. The last column is the share of all errors."""
    groups = list(errors.ordered(grouping))
    wrong = max(1, sum(group.words - group.correct_arcs for _, group in groups))
    for name, group in groups:
        share = (group.words - group.correct_arcs) / wrong
        yield name, f"{group.words:,}", f"{group.uas:.2f}", f"{group.las:.2f}", share


def _pairs(pairs: Counter[tuple[str, str]]) -> Iterator[tuple[str, str, str, float]]:
    """Yield the most frequent pairs, each with its share of all pairs."""
    for pair, times in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS_SHOWN]:
        yield *pair, f"{times:,}", times / pairs.total()
