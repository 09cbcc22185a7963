"""Scores for people to read."""

from __future__ import annotations

from parser.evaluation.scores import Scores

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
