"""The report of a table of treebanks: a line for each, averages by size, and what was chosen for which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from parser.config.measures import NAMES
from parser.parsing.model_card import OF_TEXT
from parser.speed.reporting.document import MARKDOWN, Definitions, Heading, Part, Table, write_document
from parser.tables.found_treebanks import FoundTreebank
from parser.tables.kept_models import package_of
from parser.tables.model_card import scores_of
from parser.tables.report import MINUTE
from parser.tables.runs import Job, Row

TEXT_MEASURES = "tokens", "sentences", "words", "upos", "ufeats", "lemmas", "uas", "las", "mlas", "blex"
GOLD_MEASURES = "upos", "ufeats", "lemmas", "uas", "las"
LARGE = 10_000
"""Words of train, from which on averages are given apart."""
MEGABYTE = 1_000_000
NOTE = (
    "Scores are those of CoNLL 2018, in per cent, of the epoch with the best LAS on dev; on test, or where "
    "it says so on dev. An average counts each treebank once, and those alone that have the score."
)


class _ReportLine(NamedTuple):
    name: str
    words: int
    scores: Mapping[str, float]
    """By title of the column."""
    rest: Sequence[str]


def write_treebank_report(
    title: str,
    done: Mapping[Job, Row],
    found: Mapping[str, FoundTreebank],
    skipped: Mapping[str, str],
    folder: Path,
) -> Path:
    """Write report.md and report.html. Returns the path of the first.

    found: by name of the treebank. skipped: why those are not trained that can not be.
    """
    lines = sorted(
        (_line(job, row, found[job.name], folder) for job, row in done.items()), key=lambda own: own.words
    )
    missing = [name for name in found if name not in {job.name for job in done}]
    parts: list[Part] = [Heading(1, title), NOTE]
    if missing:
        parts.append(f"Not trained, or not yet: {', '.join(missing)}.")
    parts.append(_table(lines))
    if chosen := {name: "; ".join(own.choices) for name, own in found.items() if own.choices}:
        parts += [Heading(2, "What was chosen"), Definitions(chosen)]
    if skipped:
        parts += [Heading(2, "Left out"), Definitions(skipped)]
    write_document(title, parts, folder)
    return folder / MARKDOWN


def _line(job: Job, row: Row, found: FoundTreebank, folder: Path) -> _ReportLine:
    scores: dict[str, float] = {}
    for own in scores_of(job.config, row):
        measures = TEXT_MEASURES if own.given == OF_TEXT else GOLD_MEASURES
        where = own.given if own.split == "test" else f"{own.given}, {own.split}"
        scores |= {f"{where}: {NAMES[name]}": own.scores[name] for name in measures if name in own.scores}
    package = package_of(found, folder)
    size = f"{package.stat().st_size / MEGABYTE:.1f}" if package.is_file() else ""
    rest = [f"{row['seconds'] / MINUTE:.1f}", size, found.treebank.licence or ""]
    return _ReportLine(job.name, found.size.words, scores, rest)


def _table(lines: Sequence[_ReportLine]) -> Table:
    titles = sorted(dict.fromkeys(title for line in lines for title in line.scores), key=_place)
    rows = [[line.name, f"{line.words:,}", *_cells(line.scores, titles), *line.rest] for line in lines]
    rows += [[name, "", *_cells(scores, titles), "", "", ""] for name, scores in _averages(lines, titles)]
    return Table(["", "words of train", *titles, "minutes", "MB", "licence"], rows)


def _place(title: str) -> tuple[bool, str, int]:
    """By which columns are ordered: raw text first."""
    given, _, measure = title.rpartition(": ")
    return given != OF_TEXT, given, list(NAMES.values()).index(measure)


def _cells(scores: Mapping[str, float], titles: Sequence[str]) -> list[str]:
    return [f"{scores[title]:.2f}" if title in scores else "" for title in titles]


def _averages(lines: Sequence[_ReportLine], titles: Sequence[str]) -> Iterator[tuple[str, dict[str, float]]]:
    large = [line for line in lines if line.words >= LARGE]
    small = [line for line in lines if line.words < LARGE]
    groups = {"average": lines}
    if large and small:
        groups |= {f"average, below {LARGE:,} words": small, f"average, from {LARGE:,} words": large}
    for name, own in groups.items():
        if len(own) > 1:
            found = {title: [line.scores[title] for line in own if title in line.scores] for title in titles}
            yield f"{name} ({len(own)})", {title: mean(values) for title, values in found.items() if values}
