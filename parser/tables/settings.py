"""The settings of a table. The text under a field is its documentation."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from parser.config.measures import Measure, TextMeasure
from parser.system.settings import Count, Settings
from parser.tables.search import SearchSettings, trials

Seeds = Annotated[int, Field(gt=0, le=1000)]


class RowSettings(Settings):
    """A row: the config of the table with some settings changed."""

    base: str | None = None
    """The training config that the row changes. Default: that of the table, whose `set` counts here, too."""
    set: dict[str, Any] = Field({})
    """Changed settings by their full names, as in `--set` of `train`: `training.batch_size: 8`."""
    seeds: Seeds | None = None
    """Number of runs, with the seeds 1, 2, ... Default: that of the table."""


class PlotSettings(Settings):
    """Test LAS over the values of one setting, with a line for each value of another."""

    x: str
    lines: str


class TableConfig(Settings):
    title: str
    """Of the report and the plots."""
    base: str
    """The training config that all rows change."""
    set: dict[str, Any] = Field({})
    """Settings that are changed for all rows."""
    rows: dict[str, RowSettings] = Field({})
    search: SearchSettings | None = None
    """Further rows, whose settings are drawn at random. The report has the best ones on dev first."""
    seeds: Seeds = 1
    """Number of runs of each row, with the seeds from 1 on."""
    together: Count = 2
    """Number of parallel runs, each with the threads of its config."""
    baseline: str | None = None
    """The row that the others' test LAS is compared with."""
    target: float | list[float] | None = None
    """One dev LAS or several: the table gives the seconds until each row reached them."""
    plot: PlotSettings | None = None
    measures: list[Measure] = Field(["uas", "las"], min_length=1)
    """The scores on dev and test that the table has."""
    text_measures: list[TextMeasure] = Field([])
    """The scores on the raw text of test that the table has, if the base has a tokenizer."""

    @cached_property
    def all_rows(self) -> dict[str, RowSettings]:
        """Those of `rows` and of `search`."""
        drawn = trials(self.search) if self.search else ()
        return {**self.rows, **{name: RowSettings(set=changes) for name, changes in drawn}}

    @property
    def targets(self) -> list[float]:
        """All of `target`."""
        if self.target is None:
            return []
        return self.target if isinstance(self.target, list) else [self.target]
