"""The page of `evaluate --report`: the scores of a parser, its errors, and the probabilities of its arcs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from parser.evaluation.errors import GROUPINGS, Errors, SentenceErrors
from parser.evaluation.measures import MEASURES
from parser.evaluation.report import meanings
from parser.evaluation.scores import Scores
from parser.evaluation.tally import Tally
from parser.evaluation.value_errors import EXTRA, MISSING, OTHER_VALUE, UNKNOWN_FORM, ValueErrors, title_of
from parser.pages.page import rendered
from parser.pages.trees_page import tree_data
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import WORD_COLUMNS, Sentence

KINDS_SHOWN, SENTENCES_SHOWN, LABELS_SHOWN = 25, 20, 20
ARCS_OF_BIN = 50
"""Minimum arcs of a label in each bin: fewer are right or wrong by chance."""
CONFUSED = {"upos": "UPOS", "xpos": "XPOS", "lemma": "Lemmas"}
ARCS = "arcs"
SIZE, MARGIN = 240, 48
"""Size and margin of the diagram in pixels."""
CONFIDENCE_MEASURES: Mapping[str, tuple[Callable[..., float | None], str]] = {
    "calibration error": (
        calibration_error,
        "mean distance of probability and the share that is right, over 15 groups of equally many; 0 is best",
    ),
    "Brier score": (brier_score, "mean squared distance of probability and what is so; 0 is best"),
    "area of errors": (
        area_of_errors,
        "how often a wrong one is less probable than a right one; 1 is best, 0.5 is chance",
    ),
}


def report_page(
    title: str,
    errors: Errors,
    gold: Sequence[Sentence],
    trees: Sequence[ParsedTree],
    predicted: Collection[str],
    curves: bytes | str,
    confidences: Mapping[str, Mapping[str, Confidence]],
) -> str:
    """Return the page as an HTML document.

    predicted: the columns that the parser predicts. curves: the SVG of the learning curves, or the reason why
    there are none. confidences: of `ARCS`, and of columns by their names, see `_confidence_part`.
    """
    values = errors.values
    tallies = {
        "labels": errors.labels,
        "head_tags": errors.head_tags,
        **values.confusions,
        "features": values.features,
        "lemma_kinds": values.lemma_kinds,
    }
    worst = errors.worst(SENTENCES_SHOWN)
    shown = {
        "worst": worst,
        "examples": sorted(_sentences_of((*tallies.values(), *values.lacking.values())).difference(worst)),
    }
    addresses = {
        number: f"#{key}-{place}" for key, numbers in shown.items() for place, number in enumerate(numbers)
    }
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
        confidences=[_confidence_part(what, each) for what, each in confidences.items()],
        curves=curves,
        groups={grouping: list(_groups(errors, grouping)) for grouping in GROUPINGS},
        crossing=list(_crossing_heads(errors.scores)),
        columns=list(_columns(values)),
        attributes=list(_attributes(values)),
        confused={column: CONFUSED[column] for column in values.confusions},
        kinds={name: list(_kinds(tally, addresses)) for name, tally in tallies.items()},
        lacking=[
            (title_of(column), *row)
            for column, tally in values.lacking.items()
            for row in _kinds(tally, addresses)
        ],
        headings={
            key: [_heading(gold[number], errors.sentences[number]) for number in numbers]
            for key, numbers in shown.items()
        },
        trees={
            key: [drawn(gold[number], trees[number]) for number in numbers] for key, numbers in shown.items()
        },
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


def _sentences_of(tallies: Iterable[Tally]) -> set[int]:
    """Return the numbers of the sentences of all examples that are shown."""
    kinds = ((tally, kind) for tally in tallies for kind in tally.ordered(KINDS_SHOWN))
    return {example.sentence for tally, kind in kinds for example in tally.examples[kind]}


def _heading(sentence: Sentence, errors: SentenceErrors) -> str:
    where = f"{sentence.identifier}, line {sentence.line:,}"
    return f"{where}: {errors.errors} of {errors.words} words wrong"


def _kinds(tally: Tally, addresses: Mapping[int, str]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the most frequent kinds: parts of the kind, words, unknown forms, the share of all
    kinds, and examples with their addresses.

    addresses: those of sentences in the page.
    """
    for kind in tally.ordered(KINDS_SHOWN):
        words = tally.counts[kind]
        examples = [
            (example.text, addresses[example.sentence], example.place) for example in tally.examples[kind]
        ]
        yield (
            *kind,
            f"{words:,}",
            f"{tally.unknown[kind]:,}",
            f"{100 * words / tally.counts.total():.1f} %",
            examples,
        )


def _crossing_heads(scores: Scores) -> Iterator[tuple[str, str, float]]:
    """Yield the heads that words on non-projective gold arcs got."""
    right, lifted = scores.correct_crossing_heads, scores.lifted_crossing_heads
    for name, words in (
        ("right head", right),
        ("head of the projective tree", lifted),
        ("another head", scores.crossing_arcs - right - lifted),
    ):
        if scores.crossing_arcs:
            yield name, f"{words:,}", words / scores.crossing_arcs


def _columns(values: ValueErrors) -> Iterator[tuple[str, ...]]:
    """Yield for each column the percentage of right words in each group."""
    for column, groups in values.groups.items():
        shares = (
            f"{group.percent:.1f} of {group.words:,}" if group.words else "" for group in groups.values()
        )
        yield title_of(column), *shares


def _attributes(values: ValueErrors) -> Iterator[tuple[str, ...]]:
    for name, counts in islice(values.attributes().items(), KINDS_SHOWN):
        yield name, *(f"{counts[kind]:,}" for kind in (MISSING, EXTRA, OTHER_VALUE, UNKNOWN_FORM))


def _confidence_part(what: str, confidences: Mapping[str, Confidence]) -> dict[str, object]:
    """Return the values of a report's part about confidence: the reliability diagram as SVG, a row for each
    measure and, of arcs, one for each of the most frequent labels.

    confidences: those of the same arcs or values, at least one, by the treatment of their probabilities.
    """
    scores = [
        (name, *(_four(measure(each.probabilities, each.is_right)) for each in confidences.values()), meaning)
        for name, (measure, meaning) in CONFIDENCE_MEASURES.items()
    ]
    labels = []
    of_all = zip(*(each.by_label() for each in confidences.values() if what == ARCS), strict=True)
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
    title = what if what == ARCS else title_of(what)
    description = f"{title}: the share that is right over the mean probability, both equal on the diagonal"
    diagram = rendered("reliability.svg", curves=curves, size=SIZE, margin=MARGIN, description=description)
    return {
        "title": title,
        "names": list(confidences),
        "scores": scores,
        "labels": labels,
        "diagram": diagram,
    }


def _four(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
