"""What a table's YAML file may say. The text under a field is its documentation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from parser.config import Count, Settings

Seeds = Annotated[int, Field(gt=0, le=1000)]


class RowSettings(Settings):
    """A row: the config of the table with some keys changed."""

    set: dict[str, Any] = Field({})
    """As `--set` of `train` has it: training.batch_size: 8."""
    seeds: Seeds | None = None
    """So many runs, with the seeds from 1 on; as many as the table says unless said."""


class PlotSettings(Settings):
    """Test LAS over the values of one key, a line for each value of another."""

    x: str
    lines: str


class TableConfig(Settings):
    title: str
    base: str
    """The training config that all rows begin with."""
    set: dict[str, Any] = Field({})
    """What is changed for all rows."""
    rows: dict[str, RowSettings] = Field(min_length=1)
    seeds: Seeds = 1
    together: Count = 2
    """Runs at the same time, each with the threads that its config asks for."""
    baseline: str | None = None
    """The row that the others' test LAS are compared with."""
    target: float | None = None
    """A dev LAS: the table says how long each row took to reach it."""
    plot: PlotSettings | None = None
