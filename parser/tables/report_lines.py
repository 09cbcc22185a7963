"""A treebank's line in the report of a table of treebanks, with the scores that others publish for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parser.evaluation.measures import NAMES, TextMeasure
from parser.models.model_card import OF_TEXT, Given
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
