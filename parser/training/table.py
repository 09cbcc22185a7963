"""A table of training runs: its settings, and the runs of its rows, also of rows that a random search draws
(Bergstra & Bengio 2012). The text under a field is its documentation.
"""

from __future__ import annotations

import difflib
import math
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from parser.config.file import ConfigError, flat, read_settings
from parser.evaluation.measures import Measure, TextMeasure
from parser.system.console import lines_of
from parser.system.settings import Count, Settings, contradiction_error
from parser.training.config import for_its_treebank, read_config
from parser.training.runs import Job

SEED = "training.seed"
Seeds = Annotated[int, Field(gt=0, le=1000)]
DIGITS = 2
"""Significant digits of a drawn number; more if its range is narrow."""


class RowSettings(Settings):
    """A row: the config of the table with some settings changed."""

    base: str | None = None
    """Training config that the row changes. Default: the `base` of the table. The `set` of the table applies
    in both cases."""
    set: dict[str, Any] = Field({})
    """Changed settings by their full names, as with `train --set`, for example `training.batch_size: 8`."""
    seeds: Seeds | None = None
    """Number of runs, with the seeds 1, 2, ... Default: the `seeds` of the table."""


class PlotSettings(Settings):
    """Test LAS over the values of one setting, with a line for each value of another."""

    x: str
    lines: str


Choices = Annotated[list[Any], Field(min_length=1)]


class RangeSettings(Settings):
    low: int | float
    high: int | float
    """Upper limit. If both limits are written without a decimal point, whole numbers are drawn."""
    scale: Literal["linear", "log"] = "linear"
    """Scale on which values are drawn. `log`: as many values between 1 and 10 as between 10 and 100."""

    @model_validator(mode="after")
    def _refuse_empty(self) -> RangeSettings:
        if self.low > self.high:
            raise contradiction_error([("low", "is above high")])
        if self.scale == "log" and self.low <= 0:
            raise contradiction_error([("low", "has no logarithm; it should be above 0")])
        return self


RangeOrChoices = Annotated[
    Annotated[RangeSettings, Tag("<range>")] | Annotated[Choices, Tag("<choices>")],
    Discriminator(lambda value: "<choices>" if isinstance(value, list) else "<range>"),
]
"""A value of one of these types; errors are reported for one of them only."""


class SearchSettings(Settings):
    trials: Count
    """Number of rows. If it is increased later, the first rows stay the same."""
    ranges: dict[str, RangeOrChoices] = Field(min_length=1)
    """Settings to draw, by their full names: for each a range of numbers, or a list of values."""


class TableConfig(Settings):
    title: str
    """Title of the report and the plots."""
    base: str
    """Training config that all rows change."""
    set: dict[str, Any] = Field({})
    """Settings that are changed for all rows, by their full names."""
    rows: dict[str, RowSettings] = Field({})
    search: SearchSettings | None = None
    """Additional rows, whose settings are drawn at random. The report lists the best ones on dev first."""
    seeds: Seeds = 1
    """Number of runs of each row, with the seeds 1, 2, ..."""
    together: Count = 2
    """Number of runs in parallel. Each uses the threads set in its config."""
    baseline: str | None = None
    """Row with which the test LAS of the other rows is compared."""
    target: float | list[float] | None = None
    """One or several values of dev LAS. The table shows the seconds that each row needed to reach them."""
    plot: PlotSettings | None = None
    measures: list[Measure] = Field(["uas", "las"], min_length=1)
    """Scores on dev and test that the table shows."""
    text_measures: list[TextMeasure] = Field([])
    """Scores on the raw text of test that the table shows if the base config has a tokenizer."""

    @cached_property
    def all_rows(self) -> dict[str, RowSettings]:
        """The rows of `rows` and those drawn by `search`."""
        drawn = trials(self.search) if self.search else ()
        return {**self.rows, **{name: RowSettings(set=changes) for name, changes in drawn}}

    @property
    def targets(self) -> list[float]:
        """The values of `target` as a list."""
        if self.target is None:
            return []
        return self.target if isinstance(self.target, list) else [self.target]


def read_table(path: Path) -> tuple[TableConfig, list[Job]]:
    """Read a table and all its runs. Raises FileNotFoundError, and ValueError for an invalid table."""
    table = read_settings(path, TableConfig)
    jobs = jobs_of(table, path.stem)
    if not jobs:
        raise ValueError(f"{path}: there are neither rows nor a search")
    if table.search and any(job.config.treebank.dev is None for job in jobs):
        raise ValueError(f"{path}: a search has its best rows on dev first, and treebank.dev is null")
    if table.baseline is not None and table.baseline not in table.all_rows:
        known = ", ".join(table.all_rows)
        raise ValueError(f"{path}: baseline: there is no row {table.baseline!r}; the rows are {known}")
    if table.plot:
        _check_plot(table.plot, jobs, path)
    return table, jobs


def jobs_of(table: TableConfig, name: str) -> list[Job]:
    """All runs of a table. Raises ConfigError for a row with invalid settings, and FileNotFoundError."""
    jobs = []
    for row_name, row in table.all_rows.items():
        changed = {**table.set, **row.set}
        if SEED in changed:
            raise ConfigError(
                f"row {row_name!r}: {SEED}: the seeds are 1, 2, ...; set their number with `seeds`"
            )
        for seed in range(1, (row.seeds or table.seeds) + 1):
            try:
                config = read_config(Path(row.base or table.base), values={**changed, SEED: seed})
            except ConfigError as error:
                raise ConfigError(*(f"row {row_name!r}: {line}" for line in lines_of(error))) from None
            jobs.append(Job(name, row_name, seed, for_its_treebank(config)))
    return jobs


def _check_plot(plot: PlotSettings, jobs: Sequence[Job], path: Path) -> None:
    """Raises ValueError for unknown keys, for an axis without numbers and for rows without test scores."""
    for job in jobs:
        if not job.config.treebank.test:
            raise ValueError(f"{path}: plot: test LAS is drawn, and {job.name!r} has no treebank.test")
    for name, key in (("x", plot.x), ("lines", plot.lines)):
        for job in jobs:
            values = flat(job.config.model_dump())
            if key not in values:
                near = difflib.get_close_matches(key, values, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"{path}: plot.{name}: the config of {job.name!r} has no {key}{hint}")
            if name == "x" and not (isinstance(values[key], (int, float)) and values[key] > 0):
                raise ValueError(
                    f"{path}: plot.x: {key} of {job.name!r} is {values[key]!r}, not a positive number"
                )
    rows: dict[tuple[str, str], str] = {}
    for job in jobs:
        values = flat(job.config.model_dump())
        point = str(values[plot.x]), str(values[plot.lines])
        if (other := rows.setdefault(point, job.name)) != job.name:
            raise ValueError(
                f"{path}: plot: {other!r} and {job.name!r} are at one place, and would be taken for seeds"
            )


def trials(search: SearchSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of the row and the settings of each trial."""
    names = _short_names(list(search.ranges))
    for number in range(1, search.trials + 1):
        drawn = {key: _draw(values, f"{number} {key}") for key, values in search.ranges.items()}
        shown = ", ".join(f"{names[key]} {value}" for key, value in drawn.items())
        yield f"trial {number}: {shown}", drawn


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The short name of each key: as many of its last parts as distinguish it from the others."""

    def ending(key: str, words: int) -> str:
        return ".".join(key.split(".")[-words:])

    def words_of(key: str) -> int:
        return next(n for n in count(1) if [ending(other, n) for other in keys].count(ending(key, n)) == 1)

    return {key: ending(key, words_of(key)) for key in keys}


def _draw(values: RangeSettings | list[Any], seed: str) -> Any:
    """Draw a value. It is the same for the same seed, whatever else is drawn."""
    generator = random.Random(seed)
    if isinstance(values, list):
        return generator.choice(values)
    if values.scale == "linear":
        drawn = generator.uniform(values.low, values.high)
    else:
        drawn = math.exp(generator.uniform(math.log(values.low), math.log(values.high)))
    if isinstance(values.low, int) and isinstance(values.high, int):
        return min(max(round(drawn), values.low), values.high)
    width = values.high - values.low  # relative to which the number keeps two digits
    narrow = math.floor(math.log10(abs(drawn) / width)) if drawn and width else 0
    return min(max(float(f"{drawn:.{DIGITS + max(0, narrow)}g}"), values.low), values.high)
