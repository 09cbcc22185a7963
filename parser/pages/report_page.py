"""The page of `evaluate --report`: the scores of a parser, its errors, and the probabilities of its arcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from parser.evaluation.calibration import (
    BINS,
    Confidence,
    area_of_errors,
    bins,
    brier_score,
    calibration_error,
)
from parser.evaluation.errors import GROUPINGS, Errors
from parser.evaluation.measures import MEASURES
from parser.evaluation.report import meanings
from parser.pages.page import rendered
from parser.pages.trees_page import tree_data
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import WORD_COLUMNS, Sentence

PAIRS_SHOWN, SENTENCES_SHOWN, LABELS_SHOWN = 25, 20, 20
ARCS_OF_BIN = 50
"""Minimum arcs of a label in each bin: fewer are right or wrong by chance."""
SIZE, MARGIN = 240, 48
"""Size and margin of the diagram in pixels."""
CONFIDENCE_MEASURES: Mapping[str, tuple[Callable[..., float | None], str]] = {
    "calibration error": (
        calibration_error,
        "mean distance of probability and share of right arcs, over 15 groups of equally many; 0 is best",
    ),
    "Brier score": (brier_score, "mean squared distance of probability and what is so; 0 is best"),
    "area of errors": (
        area_of_errors,
        "how often a wrong arc is less probable than a right one; 1 is best, 0.5 is chance",
    ),
}


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
    there are none. confidences: see `_confidence_part`.
    """
    worst, headings = errors.worst(SENTENCES_SHOWN), []
    for number in worst:
        words, wrong = errors.sentences[number]
        where = f"{gold[number].identifier}, line {gold[number].line:,}"
        headings.append(f"{where}: {wrong} of {words} words wrong")
    return rendered(
        "report_page.html",
        title=title,
        about=f"{errors.scores.sentences:,} sentences, {errors.scores.words:,} words",
        scores=[
            *(
                (MEASURES[measure], f"{errors.scores.percent(measure):.2f}", meaning)
                for measure, meaning in meanings(predicted).items()
            ),
            ("exact match", f"{errors.scores.exact:.2f}", "sentences without an error"),
        ],
        confidence=_confidence_part(confidences),
        curves=curves,
        groups={grouping: list(_groups(errors, grouping)) for grouping in GROUPINGS},
        labels=list(_pairs(errors.labels)),
        head_tags=list(_pairs(errors.head_tags)),
        worst=headings,
        trees={"worst": [drawn(gold[number], trees[number]) for number in worst]},
    )


def drawn(gold: Sentence, tree: ParsedTree) -> dict[str, object]:
    """Return the data for drawing a parsed sentence and its differences from the gold tree."""
    tags: dict[str, Any] = {WORD_COLUMNS[name].attribute: values for name, values in tree.tags.items()}
    parsed = replace(gold, heads=tree.heads, labels=tree.labels, **tags)
    return tree_data(parsed, gold, tree.probabilities or ())


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


def _confidence_part(confidences: Mapping[str, Confidence]) -> dict[str, object] | None:
    """Return the values of a report's part about confidence: the reliability diagram as SVG, a row for each
    measure, and one for each of the most frequent labels; None without arcs.

    confidences: those of the same arcs, by the treatment of their probabilities.
    """
    if not any(len(each.labels) for each in confidences.values()):
        return None
    scores = [
        (name, *(_four(measure(each.probabilities, each.is_right)) for each in confidences.values()), meaning)
        for name, (measure, meaning) in CONFIDENCE_MEASURES.items()
    ]
    labels = []
    of_all = zip(*(each.by_label() for each in confidences.values()), strict=True)
    for groups in islice(of_all, LABELS_SHOWN):
        name, first = groups[0]
        count = max(1, min(BINS, len(first.labels) // ARCS_OF_BIN))
        errors = [_four(calibration_error(each.probabilities, each.is_right, count)) for _, each in groups]
        labels.append((name, f"{len(first.labels):,}", f"{100 * first.is_right.mean():.1f}", *errors))
    curves = {
        name: [
            (round(SIZE * one.probability, 1), round(SIZE * (1 - one.right), 1))
            for one in bins(each.probabilities, each.is_right)
        ]
        for name, each in confidences.items()
    }
    description = "The share of right arcs over their mean probability: on the diagonal, both are the same"
    diagram = rendered("reliability.svg", curves=curves, size=SIZE, margin=MARGIN, description=description)
    return {"names": list(confidences), "scores": scores, "labels": labels, "diagram": diagram}


def _four(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
