"""The settings of a table. The text under a field is its documentation."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from parser.evaluation.measures import Measure, TextMeasure
from parser.system.settings import Count, Settings
from parser.tables.search import SearchSettings, trials

Seeds = Annotated[int, Field(gt=0, le=1000)]


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
