"""Scores as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from parser.evaluation.measures import MEASURES, OF_COLUMNS, TEXT_MEASURES, Measure
from parser.evaluation.scores import Scores
from parser.evaluation.significance import RESAMPLES, Comparison
from parser.evaluation.text_scores import TextScores
from parser.system.console import counted

LABELS_SHOWN = 20
MEANINGS: dict[Measure, str] = {
    "upos": "words with the right universal tag",
    "xpos": "words with the right tag of the language",
    "ufeats": "words with the right universal features",
    "alltags": "words with all of these right",
    "lemmas": "words with the right lemma",
    "uas": "words with the right head",
    "las": "and the right label, subtypes stripped",
    "las_full": "and the right label with its subtype",
    "clas": "LAS of content words, F1",
    "mlas": "and of their tags, features and function words",
    "blex": "CLAS and the right lemma",
}
NOT_PREDICTED = "not predicted: those of the treebank itself"
COMPARED_COLUMNS: dict[Measure, set[str]] = {**OF_COLUMNS, "mlas": {"upos", "feats"}, "blex": {"lemma"}}
"""The columns that scores compare, besides heads and labels."""
SIGNIFICANT = 0.05
"""A difference with a smaller p is called significant."""


def meanings(predicted: Collection[str]) -> dict[Measure, str]:
    """The meanings of scores, for a parser that predicts these columns and copies others from the input."""
    copied = {measure for measure, columns in OF_COLUMNS.items() if columns.isdisjoint(predicted)}
    return {measure: NOT_PREDICTED if measure in copied else text for measure, text in MEANINGS.items()}


def copied_by(first: Collection[str], second: Collection[str]) -> dict[Measure, str]:
    """Notes on the scores for which A or B copies columns from the input.

    first, second: the columns that A and B predict.
    """
    notes = {}
    for measure, columns in COMPARED_COLUMNS.items():
        copied = {name: sorted(columns - {*predicted}) for name, predicted in (("A", first), ("B", second))}
        parts = [f"{name} copies {', '.join(map(str.upper, its))}" for name, its in copied.items() if its]
        if parts:
            notes[measure] = f"{' and '.join(parts)} from the file"
    return notes


def verdict(comparison: Comparison, copied: Mapping[Measure, str]) -> str:
    """Whether A or B is better, with the interval of the difference and its p. copied: see `copied_by`."""
    difference, (low, high) = comparison.difference, comparison.interval
    better = "no significant difference"
    if comparison.p_value < SIGNIFICANT:
        better = f"{'B' if difference > 0 else 'A'} is significantly better"
    note = copied.get(comparison.measure)
    return (
        f"{better}: {MEASURES[comparison.measure]} of B - A is {difference:+.2f}, "
        f"95 % interval {low:+.2f} to {high:+.2f}, p = {comparison.p_value:.4f}{f'; {note}' if note else ''}"
    )


def report(scores: Scores, predicted: Collection[str]) -> list[str]:
    """The lines of a report of all scores, with F1 by label and LAS by arc length.

    predicted: the columns that the parser predicts.
    """
    rows = [
        (MEASURES[measure], scores.percent(measure), meaning)
        for measure, meaning in meanings(predicted).items()
    ]
    rows.append(("exact match", scores.exact, "sentences without an error"))
    if scores.crossing_arcs:
        meaning = f"non-projective arcs with the right head, of {scores.crossing_arcs:,}"
        sentences = counted(scores.nonprojective_sentences, "sentence")
        rows += [
            ("crossing arcs", scores.crossing_recall, meaning),
            ("lifted arcs", scores.crossing_lifted, "and those with the head of the projective tree instead"),
            ("LAS, projective", scores.projective_las, "LAS in sentences without crossing arcs"),
            ("LAS, crossing", scores.nonprojective_las, f"LAS in {sentences} with crossing arcs"),
        ]
    if scores.enhanced.gold:
        rows += [
            ("ELAS", scores.enhanced.elas, "enhanced dependencies with the right head and label, F1"),
            ("EULAS", scores.enhanced.eulas, "and of the labels only the universal part"),
        ]
    lines = [f"{counted(scores.sentences, 'sentence')}, {counted(scores.words, 'word')}", ""]
    lines += [f"{name:<18}{value:6.2f}  {meaning}" for name, value, meaning in rows]
    most = f" (the {LABELS_SHOWN} most frequent)" if len(scores.gold_labels) > LABELS_SHOWN else ""
    lines += ["", f"F1 by label{most}"]
    for name, value in list(scores.label_f1().items())[:LABELS_SHOWN]:
        lines.append(f"  {name:<16}{value:6.2f}  of {scores.gold_labels[name]:,}")
    lines += ["", "LAS by arc length in words"]
    for name, value in scores.length_las().items():
        lines.append(f"  {name:<16}{value:6.2f}  of {scores.lengths[name]:,}")
    return lines


def text_report(scores: TextScores) -> list[str]:
    """A line for each score of parsed raw text, and for each kind of errors in the segmentation."""
    lines = [f"{'':<12}{'F1':>8}{'precision':>11}{'recall':>8}"]
    lines += [
        f"{name:<12}{f1:8.2f}{precision:11.2f}{recall:8.2f}"
        for name, f1, precision, recall in text_rows(scores)
    ]
    lines += ["", "errors in the segmentation"]
    lines += [f"  {kind:<40}{errors:6,}  of {of:,}" for kind, errors, of, _ in scores.segmentation.rows()]
    return lines


def text_rows(scores: TextScores) -> Iterator[tuple[str, float, float, float]]:
    """The name of each score of parsed raw text, its F1, precision and recall."""
    for measure, name in TEXT_MEASURES.items():
        right, of_parsed, of_gold = (counts[measure] for counts in (scores.right, scores.parsed, scores.gold))
        precision, recall = (100 * right / total if total else 0.0 for total in (of_parsed, of_gold))
        yield name, scores.percent(measure), precision, recall
    if (edges := scores.enhanced).gold:
        for name, right, f1 in (
            ("ELAS", edges.right, edges.elas),
            ("EULAS", edges.right_universal, edges.eulas),
        ):
            yield name, f1, 100 * right / max(1, edges.parsed), 100 * right / edges.gold


def score_line(scores: Mapping[str, float], measures: Iterable[Measure], prefix: str = "") -> str:
    """Scores in one line. prefix: the prefix of the measures' names in `scores`."""
    return "  ".join(f"{MEASURES[measure]} {scores[prefix + measure]:.2f}" for measure in measures)


def comparison_report(
    comparison: Comparison, first: str, second: str, copied: Mapping[Measure, str]
) -> list[str]:
    """The lines of a report that compares two parsers: scores, significance, and where they differ most.

    first, second: the parsers' names. copied: see `copied_by`.
    """
    a, b = comparison.first, comparison.second
    by_label = _group_rows(a.gold_labels, a.correct_labels, b.correct_labels)
    title = f"LAS by label, where most arcs differ{'':<6}{'A':>7}{'B':>7}{'B - A':>8}{'gained':>8}"
    lines = [
        f"A: {first}",
        f"B: {second}",
        f"{counted(a.sentences, 'sentence')}, {counted(a.words, 'word')}",
        "",
        f"{'':<18}{'A':>7}{'B':>7}{'B - A':>8}",
        *(
            _score_row(name, a.percent(measure), b.percent(measure), copied.get(measure, ""))
            for measure, name in MEASURES.items()
        ),
        _score_row("exact match", a.exact, b.exact),
        "",
        verdict(comparison, copied),
        f"(paired bootstrap, and for p paired randomization, two-sided: {RESAMPLES:,} samples of "
        f"{counted(a.sentences, 'sentence')})",
        *(["", title, *by_label] if by_label else []),
        "",
        f"LAS by arc length in words{'':<16}{'A':>7}{'B':>7}{'B - A':>8}{'gained':>8}",
        *_group_rows(
            {name: a.lengths[name] for name in a.length_las()}, a.correct_lengths, b.correct_lengths, None
        ),
    ]
    return lines


def _score_row(name: str, first: float, second: float, note: str = "") -> str:
    return f"{name:<18}{first:7.2f}{second:7.2f}{second - first:+8.2f}  {note}".rstrip()


def _group_rows(
    totals: Mapping[str, int], first: Counter[str], second: Counter[str], shown: int | None = LABELS_SHOWN
) -> list[str]:
    """LAS of both parsers for each group of arcs. If `shown`, only that many, which differ most."""
    names = list(totals)
    if shown:
        names = [name for name in names if second[name] != first[name]]
        names = sorted(names, key=lambda name: (-abs(second[name] - first[name]), name))[:shown]
    lines = []
    for name in names:
        a, b = (100 * correct[name] / totals[name] for correct in (first, second))
        gained = second[name] - first[name]
        lines.append(f"  {name:<16}of {totals[name]:<21,}{a:7.2f}{b:7.2f}{b - a:+8.2f}{gained:+8}")
    return lines
