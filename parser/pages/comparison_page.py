"""The page of `compare --report`: two parsers on one treebank, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from parser.evaluation.errors import GROUPINGS, Errors
from parser.evaluation.significance import Comparison
from parser.measures import MEASURES
from parser.pages.html import picture, section, table, tree_places
from parser.pages.report_page import HEADS_NOTE, LABELS_NOTE, LEGEND, PAIRS_SHOWN, drawn, page_with_trees
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

SENTENCES_SHOWN = 10
"""Of those that are better, and of those that are worse."""


class Parsed(NamedTuple):
    """The output of a parser."""

    name: str
    errors: Errors
    trees: Sequence[ParsedTree]
    curves: bytes | None
    """The SVG of its learning curves."""


def comparison_page(
    treebank: str, gold: Sequence[Sentence], first: Parsed, second: Parsed, comparison: Comparison
) -> str:
    """An HTML document."""
    title = f"{first.name} and {second.name} on {treebank}"
    gains = [
        one.errors - other.errors
        for one, other in zip(first.errors.sentences, second.errors.sentences, strict=True)
    ]
    by_gain = sorted(range(len(gold)), key=lambda number: (-gains[number], number))
    better = [number for number in by_gain[:SENTENCES_SHOWN] if gains[number] > 0]
    worse = [number for number in by_gain[::-1][:SENTENCES_SHOWN] if gains[number] < 0]
    body = [
        f"<header><h1>{escape(title)}</h1>",
        f"<p>A: {escape(first.name)}<br>B: {escape(second.name)}</p></header>",
        "<main>",
        section("Scores", _scores(comparison), note=_significance(comparison, gains)),
        section("Learning curves", *_curves(first, "A"), *_curves(second, "B")),
        *(section(f"By {grouping}", _groups(first, second, grouping)) for grouping in GROUPINGS),
        section(
            "Labels taken for others", _pairs(first.errors.labels, second.errors.labels), note=LABELS_NOTE
        ),
        section(
            "Heads taken for others, by their tags",
            _pairs(first.errors.head_tags, second.errors.head_tags),
            note=HEADS_NOTE,
        ),
    ]
    data: dict[str, list[dict[str, object]]] = {}
    for key, heading, numbers in (
        ("better", "Sentences that B parses better", better),
        ("worse", "Sentences that B parses worse", worse),
    ):
        headings = [name for number in numbers for name in _headings(gold[number], gains[number])]
        body.append(section(heading, tree_places(key, headings), note=LEGEND))
        data[key] = [drawn(gold[number], own.trees[number]) for number in numbers for own in (first, second)]
    return page_with_trees(title, "".join([*body, "</main>"]), data)


def _significance(comparison: Comparison, gains: Sequence[int]) -> str:
    low, high = comparison.interval
    changed = sum(map(bool, gains))
    return (
        f"{MEASURES[comparison.measure]} differs by {comparison.difference:+.2f}, 95 % interval {low:+.2f} "
        f"to {high:+.2f}, p = {comparison.p_value:.4f} (paired bootstrap). {changed:,} of {len(gains):,} "
        "sentences have more or fewer errors."
    )


def _headings(sentence: Sentence, gain: int) -> tuple[str, str]:
    """Of the trees of A and B."""
    place = f"{sentence.identifier}, line {sentence.line:,}"
    return f"{place}: A", f"{place}: B, {abs(gain)} {'fewer' if gain > 0 else 'more'} errors"


def _scores(comparison: Comparison) -> str:
    rows = []
    for measure, name in MEASURES.items():
        before, after = comparison.first.percent(measure), comparison.second.percent(measure)
        rows.append((name, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}"))
    return table(("score", "A", "B", "B - A"), rows)


def _curves(parsed: Parsed, letter: str) -> list[str]:
    if parsed.curves is None:
        return [f'<p class="note">{letter} does not lie in the folder of its training run.</p>']
    return [picture(parsed.curves, f"Loss and dev scores over the epochs of {letter}")]


def _groups(first: Parsed, second: Parsed, grouping: str) -> str:
    rows = []
    after = dict(second.errors.ordered(grouping))
    for name, group in first.errors.ordered(grouping):
        gained = after[name].correct_arcs - group.correct_arcs
        las = group.las, after[name].las
        rows.append(
            (
                name,
                f"{group.words:,}",
                *(f"{one:.2f}" for one in las),
                f"{las[1] - las[0]:+.2f}",
                f"{gained:+,}",
            )
        )
    return table(("", "words", "LAS of A", "LAS of B", "B - A", "arcs gained"), rows)


def _pairs(first: Counter[tuple[str, str]], second: Counter[tuple[str, str]]) -> str:
    """The pairs whose numbers changed most."""
    changes = {pair: second[pair] - first[pair] for pair in first | second}
    ordered = sorted(changes, key=lambda pair: (-abs(changes[pair]), pair))[:PAIRS_SHOWN]
    rows = [(*pair, f"{first[pair]:,}", f"{second[pair]:,}", f"{changes[pair]:+,}") for pair in ordered]
    return table(("gold", "parsed", "A", "B", "B - A"), rows, ["parsed"])
