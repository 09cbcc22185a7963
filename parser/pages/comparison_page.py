"""The page of `compare --report`: two parsers on one treebank, and their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from parser.evaluation.errors import GROUPINGS, Errors
from parser.evaluation.measures import MEASURES, Measure
from parser.evaluation.report import verdict
from parser.evaluation.significance import Comparison
from parser.evaluation.tally import Tally
from parser.pages.page import rendered
from parser.pages.report_page import KINDS_SHOWN, drawn
from parser.parsing.parsed_tree import ParsedTree
from parser.system.console import counted
from parser.treebank.sentence import Sentence

SENTENCES_SHOWN = 10
"""Maximum number of sentences that got better, and of those that got worse."""


class Parsed(NamedTuple):
    name: str
    errors: Errors
    trees: Sequence[ParsedTree]
    curves: bytes | str
    """The SVG of the parser's learning curves, or the reason why there are none."""


def comparison_page(
    treebank: str,
    gold: Sequence[Sentence],
    first: Parsed,
    second: Parsed,
    comparison: Comparison,
    copied: Mapping[Measure, str],
) -> str:
    """Return the page as an HTML document. copied: see `copied_by`."""
    gains = [
        one.errors - other.errors
        for one, other in zip(first.errors.sentences, second.errors.sentences, strict=True)
    ]
    by_gain = sorted(range(len(gold)), key=lambda number: (-gains[number], number))
    better = [number for number in by_gain[:SENTENCES_SHOWN] if gains[number] > 0]
    worse = [number for number in by_gain[::-1][:SENTENCES_SHOWN] if gains[number] < 0]
    scores = []
    for measure, name in MEASURES.items():
        before, after = comparison.first.percent(measure), comparison.second.percent(measure)
        percents = f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}"
        scores.append((name, *percents, copied.get(measure, "")))
    return rendered(
        "comparison_page.html",
        title=f"{first.name} and {second.name} on {treebank}",
        names={"A": first.name, "B": second.name},
        scores=scores,
        significance=f"{verdict(comparison, copied)} (paired bootstrap and randomization). "
        f"{sum(map(bool, gains)):,} of {len(gains):,} sentences have more or fewer errors.",
        curves={"A": first.curves, "B": second.curves},
        groups={grouping: list(_groups(first, second, grouping)) for grouping in GROUPINGS},
        labels=list(_pairs(first.errors.labels, second.errors.labels)),
        head_tags=list(_pairs(first.errors.head_tags, second.errors.head_tags)),
        better=[heading for number in better for heading in _headings(gold[number], gains[number])],
        worse=[heading for number in worse for heading in _headings(gold[number], gains[number])],
        trees={
            key: [drawn(gold[number], one.trees[number]) for number in numbers for one in (first, second)]
            for key, numbers in (("better", better), ("worse", worse))
        },
    )


def _headings(sentence: Sentence, gain: int) -> tuple[str, str]:
    """Return the headings of a sentence's trees by A and B."""
    where = f"{sentence.identifier}, line {sentence.line:,}"
    difference = counted(abs(gain), f"{'fewer' if gain > 0 else 'more'} error")
    return f"{where}: A", f"{where}: B, {difference}"


def _groups(first: Parsed, second: Parsed, grouping: str) -> Iterator[tuple[str, str, str, str, str, str]]:
    after = dict(second.errors.ordered(grouping))
    for name, group in first.errors.ordered(grouping):
        other = after[name]
        gained = other.correct_arcs - group.correct_arcs
        las = f"{group.las:.2f}", f"{other.las:.2f}", f"{other.las - group.las:+.2f}"
        yield name, f"{group.words:,}", *las, f"{gained:+,}"


def _pairs(first: Tally, second: Tally) -> Iterator[tuple[str, ...]]:
    """Yield the pairs whose numbers changed most."""
    before, after = first.counts, second.counts
    changes = {pair: after[pair] - before[pair] for pair in before | after}
    for pair in sorted(changes, key=lambda pair: (-abs(changes[pair]), pair))[:KINDS_SHOWN]:
        yield *pair, f"{before[pair]:,}", f"{after[pair]:,}", f"{changes[pair]:+,}"
