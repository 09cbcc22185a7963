"""Compares rows: speed-ups, ratios, parallel shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from parser.evaluation.statistics import Estimate, parallel_share, parallel_share_at, ratio_of
from parser.speed.measuring.cells import COMPARED, KEYS, Filter, passes, read_filter
from parser.speed.measuring.rows import CellRow, SpeedRow
from parser.speed.tasks.plugin import CELLS, CELLS_BACKWARD, NO_BATCHING
from parser.system.console import LinesError

PAPER_SIZE = 64
CELLS_FORWARD = "cells, forward"
PARTS: Mapping[str, Sequence[str]] = {
    CELLS_FORWARD: [CELLS],
    "forward": ["graph", "scheduling", "forward", CELLS],
    "cells, backward": [CELLS_BACKWARD],
    "backward": ["backward", CELLS_BACKWARD],
}
"""Parts of a step and their phases, for plugins that measure modules (`cells`) separately (Suarez & Zhu 2017,
Figures 2 and 3)."""
STEP = "whole step"
IN_WORDS = {
    "experiment": "of {}",
    "plugin": "({})",
    "mode": "({})",
    "device": "on {}",
    "threads": "with {} threads",
    "precision": "in {}",
}
"""Texts that describe a cell by its value of a key, for keys other than method and batch size."""
SCALING = "Scaling: over the method's own batches of 1."
MFU = "MFU: the speed of the useful operations, as a share of that of the machine's large matrix products."
Gains = dict[str, dict[str, dict[int, float]]]
"""Speed-up over `none` at the same batch size, by part, method and batch size."""


Comparison: TypeAlias = Sequence[CellRow]
"""The rows of one experiment in one mode, device and precision, which differ in method and batch size."""


def comparisons(rows: Sequence[CellRow]) -> list[Comparison]:
    compared: dict[tuple, list[CellRow]] = defaultdict(list)
    for row in rows:
        compared[attrgetter(*COMPARED)(row)].append(row)
    return list(compared.values())


def by_method(comparison: Comparison) -> dict[str, list[SpeedRow]]:
    """Return the measured rows of each method, ordered by batch size."""
    of_method: dict[str, list[SpeedRow]] = defaultdict(list)
    for row in comparison:
        if isinstance(row, SpeedRow):
            of_method[row.method].append(row)
    return {method: sorted(rows, key=lambda row: row.batch_size) for method, rows in of_method.items()}


def in_order(comparison: Comparison) -> list[SpeedRow]:
    """Return the measured rows, method by method."""
    return [row for rows in by_method(comparison).values() for row in rows]


def sizes_of(comparison: Comparison) -> list[int]:
    """Return the measured batch sizes."""
    return sorted({row.batch_size for row in comparison if isinstance(row, SpeedRow)})


def are_interleaved(rows: Sequence[SpeedRow]) -> bool:
    return len({row.interleaved_group for row in rows}) == 1


def ratio(first: SpeedRow, second: SpeedRow) -> Estimate:
    """Return the sentences per second of the first row divided by those of the second."""
    return ratio_of(first.turn_speeds, second.turn_speeds, are_interleaved([first, second]))


def bracketed(text: str, rows: Sequence[SpeedRow]) -> str:
    """Return a text about some rows, in brackets if they were not measured in turns."""
    return text if are_interleaved(rows) else f"({text})"


def baseline_of(comparison: Comparison) -> SpeedRow | None:
    """Return the row with which all are compared: the smallest batches of `none` or else the first method."""
    methods = by_method(comparison)
    rows = methods.get(NO_BATCHING) or next(iter(methods.values()), [])
    return rows[0] if rows else None


def scaling(rows: Sequence[SpeedRow]) -> dict[int, Estimate]:
    """Return speed-ups over batches of 1, by batch size; empty without such batches. rows: of one method."""
    if not rows or rows[0].batch_size != 1:
        return {}
    return {row.batch_size: ratio(row, rows[0]) for row in rows}


def parallel_shares(rows: Sequence[SpeedRow]) -> tuple[Estimate, float | None] | None:
    """Return the parallel shares by Amdahl's law, fitted over all batch sizes, and by the paper's formula at
    batch size 64. rows: of one method.
    """
    gains = scaling(rows)
    if len(gains) < 2:
        return None
    fitted = parallel_share(list(gains), [row.turn_speeds for row in rows])
    at_paper_size = parallel_share_at(PAPER_SIZE, gains[PAPER_SIZE].value) if PAPER_SIZE in gains else None
    return fitted, at_paper_size


def gains_of_parts(comparison: Comparison) -> Gains:
    """Return the speed-up of each part of a step over `none`; empty if modules are not measured separately.

    The parts' shares of a step are from one turn, the time of a step is from all turns. Parts that are
    missing in `none` are left out.
    """
    methods = by_method(comparison)
    unbatched = {row.batch_size: row for row in methods.pop(NO_BATCHING, [])}
    of_parts: Gains = {}
    for part in (*PARTS, STEP):
        gains = {
            method: {
                size: seconds_of(unbatched[size], part) / seconds_of(row, part)
                for row in rows
                if (size := row.batch_size) in unbatched and seconds_of(row, part) > 0
            }
            for method, rows in methods.items()
        }
        if any(gain for of_method in gains.values() for gain in of_method.values()):
            of_parts[part] = {method: of_method for method, of_method in gains.items() if of_method}
    return of_parts if next(iter(PARTS)) in of_parts else {}


def seconds_of(row: SpeedRow, part: str) -> float:
    """Return the seconds of a part for each sentence. part: a key of PARTS, or STEP."""
    share = 1.0 if part == STEP else sum(row.share(phase) for phase in PARTS[part])
    return share / row.sentences_per_second


def read_ratio(text: str) -> tuple[Filter, Filter]:
    """Return the two filters in text such as "method=replay,batch_size=64/method=none". Raises ValueError."""
    left, slash, right = text.partition("/")
    if not slash:
        example = "method=replay,batch_size=64/method=step,batch_size=64"
        raise ValueError(f"--ratio {text}: write two cells, as {example}")
    return read_filter(left), read_filter(right)


def ratio_lines(rows: Sequence[CellRow], text: str) -> list[str]:
    """Return a line for each pair of cells that differ only in the keys of the text.

    text: a text for `read_ratio`. Raises ValueError if there is no such pair.
    """
    conditions = read_ratio(text)
    shared = [key for key in KEYS if key not in conditions[0].keys() | conditions[1].keys()]
    firsts, seconds = (
        [row for row in rows if isinstance(row, SpeedRow) and passes(row, each)] for each in conditions
    )
    lines = [
        _ratio_line(first, second)
        for first in firsts
        for second in seconds
        if all(getattr(first, key) == getattr(second, key) for key in shared)
    ]
    if not lines:
        raise LinesError(
            f"--ratio {text}: no two measured cells differ only in these keys. There are:", *_cells_in(rows)
        )
    return lines


def _cells_in(rows: Sequence[CellRow]) -> Iterator[str]:
    """Yield a line for the measured cells of each experiment, mode and place."""
    for comparison in comparisons(rows):
        first, measured = comparison[0], by_method(comparison)
        methods = [
            f"{method} at {', '.join(str(row.batch_size) for row in own)}" for method, own in measured.items()
        ]
        yield f"{first.experiment}, {first.mode}, {first.place}: {'; '.join(methods) or 'none is measured'}"


def _ratio_line(first: SpeedRow, second: SpeedRow) -> str:
    how = (
        "measured in turns"
        if are_interleaved([first, second])
        else "not measured in turns: the machine may have changed"
    )
    both = [(first.experiment, second.experiment), (first.mode, second.mode), (first.place, second.place)]
    shared = ", ".join(left for left, right in both if left == right)
    differing = [key for key in IN_WORDS if getattr(first, key) != getattr(second, key)]
    names = [
        " ".join(
            [
                f"{row.method} at {row.batch_size}",
                *(IN_WORDS[key].format(getattr(row, key)) for key in differing),
            ]
        )
        for row in (first, second)
    ]
    return f"{shared}{shared and ': '}{names[0]} / {names[1]} = {ratio(first, second)} ({how})"
