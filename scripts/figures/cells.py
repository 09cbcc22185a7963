"""Tables in Markdown, and numbers as cells of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import mean

from figures.kept import Row, SpeedRun
from parser.speed.measuring.statistics import Estimate
from parser.tables.report import difference

SPLITS = "dev", "test"


def table(header: Sequence[object], lines: Iterable[Sequence[object]]) -> str:
    """Raises ValueError for a line of another length than the header's."""
    body = [_line(header), "|" + "---|" * len(header)]
    for cells in lines:
        if len(cells) != len(header):
            raise ValueError(f"{len(cells)} cells in a table of {len(header)} columns: {cells}")
        body.append(_line(cells))
    return "\n".join(body)


def _line(cells: Sequence[object]) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"


def code(lines: Iterable[str]) -> str:
    """Lines as Markdown shows them as they are."""
    return "\n".join(f"    {line}".rstrip() for line in lines)


def scores(run: Row, *which: str) -> list[str]:
    """Two digits of each, as `test las`."""
    parts = (each.split() for each in which)
    return [f"{run[split][measure]:.2f}" for split, measure in parts]


def mean_las(runs: Sequence[Row], split: str) -> str:
    return f"{mean(run[split]['las'] for run in runs):.2f}"


def spread_las(runs: Sequence[Row], split: str) -> str:
    """The mean with the lowest and the highest."""
    found = [run[split]["las"] for run in runs]
    return f"{mean(found):.2f} ({min(found):.2f}, {max(found):.2f})"


def las_difference(ours: Sequence[Row], theirs: Sequence[Row], split: str) -> str:
    """The mean difference of equal seeds, with its interval if there are several."""
    own, other = ({run["seed"]: run[split]["las"] for run in runs} for runs in (ours, theirs))
    return re.sub(r", (one seed|\d+ seeds)$", "", difference(own, other))


def minutes(run: Row) -> str:
    taken = run["seconds"] / 60
    return f"{taken:.1f}" if taken < 10 else f"{taken:.0f}"


def mean_minutes(runs: Sequence[Row]) -> str:
    return f"{mean(run['seconds'] for run in runs) / 60:.1f}"


def plain_speed(value: float) -> str:
    """One digit below 100."""
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def rounded(estimate: Estimate, digits: int) -> str:
    """With its interval."""
    value, low, high = (f"{number:.{digits}f}" for number in estimate)
    return f"{value} [{low}, {high}]"


def ratios(run: SpeedRun, lines: Iterable[tuple[str, str, str, str]], digits: int = 2) -> str:
    """A table of ratios of speeds in training.

    lines: what is said of it, the experiment, and METHOD@BATCH_SIZE of both cells.
    """
    return table(
        ("", "speed of", "over that of", "ratio"),
        (
            (what, f"`{first}`", f"`{second}`", rounded(run.ratio(experiment, first, second), digits))
            for what, experiment, first, second in lines
        ),
    )
