"""The output made from kept rows: figures between the marks of pages, pictures, and reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from figures import (
    accuracy,
    gpu,
    headline,
    joint,
    levels,
    messages,
    methods,
    on_the_fly,
    pipelines,
    recurrence,
    speed,
)
from figures.kept import MEASUREMENTS, tables, training_runs
from parser.pages.document import PLOTS
from parser.pages.plot_style import svg
from parser.speed.measuring.run import CONFIG, read_run_config, rows_of
from parser.speed.reporting.report import write_report
from parser.tables.report import write_table
from parser.training.runs import rows_of as rows_of_table
from parser.training.table import read_table

BEGIN = re.compile(r"^<!-- rows: (\S+) -->$", re.MULTILINE)
END = re.compile(r"^<!-- end -->$", re.MULTILINE)
MARKED = re.compile(r"^(<!-- rows: (\S+) -->\n)(.*?)^(<!-- end -->)$", re.MULTILINE | re.DOTALL)
MODULES = (
    *(accuracy, gpu, headline, joint, levels, messages),
    *(methods, on_the_fly, pipelines, recurrence, speed),
)
"""The modules with functions that write figures."""
TABLES = MEASUREMENTS.parent.parent / "configs/tables"
Draw = Callable[[Path], None]
"""Writes a report into a folder."""
OF_REPORTS = {
    "batch-sizes.svg": ("accuracy/batch-size", "test-las.svg"),
    "stack-lstm.svg": ("speed/stack-lstm", "ding-koehn-2019-train-cpu-1-speed.svg"),
}
"""Files in docs/, with the report and the plot in it that they show."""


def names_in(text: str) -> list[str]:
    """The names of the figures in a page. Raises ValueError for a mark whose counterpart is missing."""
    blocks = MARKED.findall(text)
    begins, ends = len(BEGIN.findall(text)), len(END.findall(text))
    if begins != ends or len(blocks) != begins or any(BEGIN.search(shown) for _, _, shown, _ in blocks):
        raise ValueError("each mark `<!-- rows: NAME -->` needs an `<!-- end -->` before the next one")
    return [name for _, name, _, _ in blocks]


def with_figures(text: str, figures: Mapping[str, str]) -> str:
    """The page with these figures. figures: by their names. Raises ValueError if one is missing."""
    if missing := [name for name in names_in(text) if name not in figures]:
        raise ValueError(f"there is no figure {missing[0]}")
    return MARKED.sub(lambda match: f"{match[1]}\n{figures[match[2]]}\n\n{match[4]}", text)


def figures_by_name() -> dict[str, Callable[[], str]]:
    """The functions that write figures, by name. Raises ValueError if two have the same name."""
    figures: dict[str, Callable[[], str]] = {}
    for module in MODULES:
        if twice := figures.keys() & module.FIGURES.keys():
            raise ValueError(f"there are two figures {', '.join(sorted(twice))}")
        figures.update(module.FIGURES)
    return figures


def reports() -> dict[str, Draw]:
    """The functions that draw reports, by the report's name, which is also the name of its folder."""
    runs = sorted(path.parent for path in MEASUREMENTS.rglob(CONFIG))
    of_runs: dict[str, Draw] = {
        run.relative_to(MEASUREMENTS).as_posix(): partial(draw_run, run) for run in runs
    }
    return of_runs | {f"accuracy/{name}": partial(draw_table, name) for name in tables()}


def draw_run(run: Path, folder: Path) -> None:
    """Write the report of a run of `stack-parser speed`."""
    config = read_run_config(run)
    write_report(rows_of(run, config), folder, folder.name)


def draw_table(name: str, folder: Path) -> None:
    """Write the report of a table of training runs."""
    table, jobs = read_table(TABLES / f"{name}.yaml")
    write_table(table, rows_of_table(jobs, training_runs(name)), folder)


def pictures() -> dict[str, str]:
    """All pictures as SVG, by the names of their files in docs/."""
    drawn = {
        "headline.svg": svg(headline.draw(headline.headlines(headline.CONFIG))),
        "latency.svg": svg(speed.draw_latency()),
    }
    for name, (report, plot) in OF_REPORTS.items():
        with TemporaryDirectory() as folder:
            reports()[report](Path(folder))
            drawn[name] = (Path(folder) / PLOTS / plot).read_text(encoding="utf-8")
    return drawn
