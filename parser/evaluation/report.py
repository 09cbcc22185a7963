"""Scores for people to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from parser.evaluation.scores import Scores
from parser.evaluation.significance import RESAMPLES, Comparison

LABELS_SHOWN = 20


def report(scores: Scores) -> str:
    """The measures, then F1 by label and LAS by arc length."""
    rows = [
        ("UAS", scores.uas, "words with the right head"),
        ("LAS", scores.las, "and the right label, subtypes stripped"),
        ("LAS, full labels", scores.las_full, "and the right label as it stands"),
        ("CLAS", scores.clas, "LAS of content words, F1"),
        ("exact match", scores.exact, "sentences without a mistake"),
    ]
    if scores.crossing_arcs:
        meaning = f"non-projective arcs with the right head, of {scores.crossing_arcs:,}"
        rows.append(("crossing arcs", scores.crossing_recall, meaning))
    lines = [f"{scores.sentences:,} sentences, {scores.words:,} words", ""]
    lines += [f"{name:<18}{value:6.2f}  {meaning}" for name, value, meaning in rows]
    lines += [
        "",
        "F1 by label"
        + (f" (the {LABELS_SHOWN} most frequent)" if len(scores.gold_labels) > LABELS_SHOWN else ""),
    ]
    for name, value in list(scores.label_f1().items())[:LABELS_SHOWN]:
        lines.append(f"  {name:<16}{value:6.2f}  of {scores.gold_labels[name]:,}")
    lines += ["", "LAS by arc length in words"]
    for name, value in scores.length_las().items():
        lines.append(f"  {name:<16}{value:6.2f}  of {scores.lengths[name]:,}")
    return "\n".join(lines)


def comparison_report(comparison: Comparison, first: str, second: str) -> str:
    """Both parsers' measures, how sure the difference is, where they differ. first, second: their names."""
    a, b = comparison.first, comparison.second
    low, high = comparison.interval
    lines = [
        f"A: {first}",
        f"B: {second}",
        f"{a.sentences:,} sentences, {a.words:,} words",
        "",
        f"{'':<18}{'A':>7}{'B':>7}{'B - A':>8}",
        *_rows([("UAS", a.uas, b.uas), ("LAS", a.las, b.las), ("LAS, full labels", a.las_full, b.las_full)]),
        *_rows([("CLAS", a.clas, b.clas), ("exact match", a.exact, b.exact)]),
        "",
        f"LAS differs by {comparison.difference:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}, p = "
        f"{comparison.p_value:.4f}",
        f"(paired bootstrap: {RESAMPLES:,} samples of {a.sentences:,} sentences; p of both directions)",
        "",
        f"LAS by label, where most arcs differ{'':<6}{'A':>7}{'B':>7}{'B - A':>8}{'gained':>8}",
        *_where(a.gold_labels, a.correct_labels, b.correct_labels),
        "",
        f"LAS by arc length in words{'':<16}{'A':>7}{'B':>7}{'B - A':>8}{'gained':>8}",
        *_where({name: a.lengths[name] for name in a.length_las()}, a.correct_lengths, b.correct_lengths, None),
    ]
    return "\n".join(lines)


def _rows(measures: list[tuple[str, float, float]]) -> list[str]:
    return [f"{name:<18}{first:7.2f}{second:7.2f}{second - first:+8.2f}" for name, first, second in measures]


def _where(
    totals: Mapping[str, int], first: Counter[str], second: Counter[str], shown: int | None = LABELS_SHOWN
) -> list[str]:
    """A line for each group of arcs; if only some are `shown`, those with the greatest differences."""
    names = list(totals)
    if shown:
        names = [name for name in names if second[name] != first[name]]
        names = sorted(names, key=lambda name: (-abs(second[name] - first[name]), name))[:shown]
    lines = []
    for name in names:
        a, b = (100 * right[name] / totals[name] for right in (first, second))
        gained = second[name] - first[name]
        lines.append(f"  {name:<16}of {totals[name]:<21,}{a:7.2f}{b:7.2f}{b - a:+8.2f}{gained:+8}")
    return lines
