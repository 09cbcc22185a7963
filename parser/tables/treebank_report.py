"""The report of a table of treebanks: a line for each, averages, a plot, and the choices made for each.

A line has the scores of the parser that is trained on a treebank, and those that others publish for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Annotated, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parser.evaluation.measures import NAMES, TextMeasure
from parser.models.model_card import OF_TEXT, Given
from parser.pages.document import MARKDOWN, Definitions, Heading, Part, Picture, Table, write_document
from parser.pages.plot_style import (
    COLOURS,
    HEIGHT,
    LABEL_SIZE,
    MARKERS,
    REFERENCE,
    TITLE_SIZE,
    WIDTH,
    legend_below,
    spread,
)
from parser.system.files import content_of
from parser.system.settings import fault_lines
from parser.tables.kept_models import package_of
from parser.tables.model_card import scores_of
from parser.tables.report import MINUTE
from parser.training.runs import Job, Row
from parser.training.treebanks import FoundTreebank

COLUMNS_OF_TEXT = "tokens", "sentences", "words", "upos", "ufeats", "lemmas", "uas", "las", "mlas", "blex"
COLUMNS_OF_GOLD = "upos", "ufeats", "lemmas", "uas", "las"
LAS = NAMES["las"]
Percent = Annotated[float, Field(ge=0, le=100)]
LARGE = 10_000
"""Words of train from which a treebank counts as large, for separate averages."""
MEGABYTE = 1_000_000
NOTE = (
    "Scores are those of CoNLL 2018, in per cent, of the epoch that was best on dev (`training.best_by`), or "
    "of the last one where there is no dev; on test, or where it says so on dev. Behind ± is the standard "
    "error of LAS, which the choice of the sentences of test makes; it does not say how much runs with "
    "other seeds differ. An average counts each treebank once, and those alone that have the score."
)
OTHERS = (
    "Scores of {name} are those that its authors publish. Releases of the treebanks, and what a parser may "
    "use beside them, differ: this is no controlled comparison."
)
MOST_NAMES = 20
"""Maximum number of treebanks in a panel for which names are shown; more names would overlap."""
NAMES_GAP = 0.035
"""Distance between names so that they do not overlap, as a share of the range of LAS."""
NAMES_WIDTH, MARGIN = 0.15, 0.05
"""Space left and right of the points, with and without names, in widths of the axes."""
WORDS = FuncFormatter(lambda value, _: f"{value:,.0f}")
INTERVAL = 1.96
"""Half the width of a 95 % interval in standard errors."""


class PublishedScores(BaseModel):
    """Scores of another parser on the test sets of treebanks, as published by its authors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    """The name of the parser."""
    source: str
    """Where the scores are published."""
    scores: dict[str, dict[Given, dict[TextMeasure, Percent]]]
    """The scores by treebank, such as UD_Wolof-WTB, by what the parser was given, and by measure."""

    def las(self, treebank: str, given: Given) -> float | None:
        """The LAS on a treebank; None if it is not published."""
        return self.scores.get(treebank, {}).get(given, {}).get("las")


def read_published(path: Path) -> PublishedScores:
    """The scores in a JSON file. Raises ValueError, OSError."""
    try:
        return PublishedScores.model_validate_json(content_of(path))
    except ValidationError as error:
        raise ValueError(f"{path}: {'; '.join(fault_lines(error))}") from None


class TreebankScore(NamedTuple):
    value: float
    error: float | None = None
    """The standard error of the score, if known."""


def mean_score(scores: Sequence[TreebankScore]) -> TreebankScore:
    """The mean score over independent test sets; its standard error takes the treebanks as given."""
    errors = [score.error for score in scores if score.error is not None]
    error = sqrt(sum(each**2 for each in errors)) / len(scores) if len(errors) == len(scores) else None
    return TreebankScore(mean(score.value for score in scores), error)


class Column(NamedTuple):
    given: str
    """The input given to the parser; with the part of the treebank unless this is test."""
    measure: str
    by: str = ""
    """The name of another parser; empty for the parsers trained here."""

    @property
    def title(self) -> str:
        return f"{self.given}: {self.measure}{f', {self.by}' if self.by else ''}"

    @property
    def place(self) -> tuple[bool, str, int, str]:
        """The sort key of columns: raw text first."""
        return self.given != OF_TEXT, self.given, list(NAMES.values()).index(self.measure), self.by


class ReportLine(NamedTuple):
    name: str
    words: int
    """The number of words in train."""
    scores: Mapping[Column, TreebankScore]
    minutes: float
    bytes: int | None
    """The size of the packed model; None if it does not exist."""
    licence: str


def report_line(
    job: Job, row: Row, found: FoundTreebank, folder: Path, published: PublishedScores | None
) -> ReportLine:
    """The line of a treebank. folder: the folder with the packed models."""
    package = package_of(found, folder)
    return ReportLine(
        job.name,
        found.size.words,
        dict(_scores(job, row, published)),
        row["seconds"] / MINUTE,
        package.stat().st_size if package.is_file() else None,
        found.treebank.licence or "",
    )


def _scores(job: Job, row: Row, published: PublishedScores | None) -> Iterator[tuple[Column, TreebankScore]]:
    for own in scores_of(job.config, row):
        is_test = own.split == "test"
        given = own.given if is_test else f"{own.given}, {own.split}"
        for name in COLUMNS_OF_TEXT if own.given == OF_TEXT else COLUMNS_OF_GOLD:
            if name in own.scores:
                error = own.las_error if name == "las" else None
                yield Column(given, NAMES[name]), TreebankScore(own.scores[name], error)
        if published and is_test:
            las = published.las(job.name, own.given)
            if las is not None:
                yield Column(given, LAS, published.name), TreebankScore(las)


def write_treebank_report(
    title: str,
    lines: Sequence[ReportLine],
    found: Mapping[str, FoundTreebank],
    skipped: Mapping[str, str],
    folder: Path,
) -> Path:
    """Write report.md, report.html and the plot. Returns the path of report.md.

    lines: the lines of the treebanks with a trained parser. found: by name of the treebank. skipped: the
    reason for each treebank that cannot be trained on.
    """
    lines = sorted(lines, key=lambda own: own.words)
    missing = [name for name in found if name not in {line.name for line in lines}]
    columns = sorted({column for line in lines for column in line.scores}, key=lambda own: own.place)
    others = sorted({column.by for column in columns if column.by})
    parts: list[Part] = [Heading(1, title), NOTE, *(OTHERS.format(name=name) for name in others)]
    if missing:
        parts.append(f"Not trained, or not yet: {', '.join(missing)}.")
    parts.append(_table(lines, columns))
    if figure := draw_over_words(title, lines):
        parts.append(Picture("las-over-words", figure))
    if chosen := {name: "; ".join(own.choices) for name, own in found.items() if own.choices}:
        parts += [Heading(2, "What was chosen"), Definitions(chosen)]
    if skipped:
        parts += [Heading(2, "Left out"), Definitions(skipped)]
    write_document(title, parts, folder)
    return folder / MARKDOWN


def _table(lines: Sequence[ReportLine], columns: Sequence[Column]) -> Table:
    rows = [
        [
            line.name,
            f"{line.words:,}",
            *_cells(line.scores, columns),
            f"{line.minutes:.1f}",
            "" if line.bytes is None else f"{line.bytes / MEGABYTE:.1f}",
            line.licence,
        ]
        for line in lines
    ]
    rows += [[name, "", *_cells(scores, columns), "", "", ""] for name, scores in _averages(lines, columns)]
    titles = [column.title for column in columns]
    return Table(["", "words of train", *titles, "minutes", "MB", "licence"], rows)


def _cells(scores: Mapping[Column, TreebankScore], columns: Sequence[Column]) -> list[str]:
    shown = [scores.get(column) for column in columns]
    errors = ["" if score is None or score.error is None else f" ± {score.error:.2f}" for score in shown]
    return [f"{score.value:.2f}{error}" if score else "" for score, error in zip(shown, errors, strict=True)]


def _averages(
    lines: Sequence[ReportLine], columns: Sequence[Column]
) -> Iterator[tuple[str, dict[Column, TreebankScore]]]:
    """Averages over all treebanks, small ones, large ones, and those with scores of another parser."""
    large = [line for line in lines if line.words >= LARGE]
    small = [line for line in lines if line.words < LARGE]
    groups = {"average": lines}
    if large and small:
        groups |= {f"average, below {LARGE:,} words": small, f"average, from {LARGE:,} words": large}
    for name in sorted({column.by for column in columns if column.by}):
        groups[f"average, with {name}"] = [
            line for line in lines if any(own.by == name for own in line.scores)
        ]
    for name, own in groups.items():
        if len(own) > 1:
            scores = {
                column: [line.scores[column] for line in own if column in line.scores] for column in columns
            }
            yield (
                f"{name} ({len(own)})",
                {column: mean_score(each) for column, each in scores.items() if each},
            )


def draw_over_words(title: str, lines: Sequence[ReportLine]) -> Figure | None:
    """A figure with a panel for each kind of input, raw text or tokens; None if there is nothing to draw."""
    columns = {column for line in lines for column in line.scores if column.measure == LAS}
    panels = sorted((column for column in columns if not column.by), key=lambda own: own.place)
    if not panels:
        return None
    figure = Figure(figsize=(WIDTH, HEIGHT * len(panels)), layout="constrained")
    figure.suptitle(f"{title}\nLAS over the words of train", fontsize=TITLE_SIZE)
    for axes, column in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        others = sorted(own for own in columns if own.given == column.given and own.by)
        _draw(axes, [line for line in lines if column in line.scores], column, others)
    legend_below(figure)
    return figure


def _draw(axes: Axes, lines: Sequence[ReportLine], column: Column, others: Sequence[Column]) -> None:
    words = [line.words for line in lines]
    own = [line.scores[column] for line in lines]
    for number, other in enumerate(others, 1):
        with_other = [line for line in lines if other in line.scores]
        there, theirs, ours = (
            [line.words for line in with_other],
            [line.scores[other].value for line in with_other],
            [line.scores[column].value for line in with_other],
        )
        axes.vlines(there, theirs, ours, **REFERENCE)
        axes.plot(
            *(there, theirs),
            color=COLOURS[number],
            marker=MARKERS[number],
            linestyle="none",
            markerfacecolor="white",
            label=f"{other.by}, as published",
        )
    axes.errorbar(
        words,
        [score.value for score in own],
        yerr=[INTERVAL * (score.error or 0.0) for score in own],
        color=COLOURS[0],
        marker=MARKERS[0],
        markersize=5,
        capsize=2,
        linestyle="none",
        label="this program, with the 95 % interval of its test set where there is one",
    )
    if len(lines) <= MOST_NAMES:
        _name_points(axes, lines, own)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(WORDS)
    axes.set_xlabel("words of train")
    axes.set_ylabel(f"LAS, from {column.given}")
    axes.margins(x=NAMES_WIDTH if len(lines) <= MOST_NAMES else MARGIN)
    axes.grid(True, color="0.9")


def _name_points(axes: Axes, lines: Sequence[ReportLine], own: Sequence[TreebankScore]) -> None:
    named = sorted((score.value, line.words, line.name) for line, score in zip(lines, own, strict=True))
    heights = [las for las, *_ in named]
    gap = NAMES_GAP * (heights[-1] - heights[0])
    for height, (_, place, name) in zip(spread(heights, gap), named, strict=True):
        axes.annotate(
            name.removeprefix("UD_").replace("_", " "),
            (place, height),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=LABEL_SIZE - 1,
        )
