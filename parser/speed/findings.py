"""Compares rows: speed-ups, ratios, parallel shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from parser.plugins import CELLS, CELLS_BACKWARD, NO_BATCHING
from parser.speed.cells import COMPARED, KEYS, Filter, device_title, passes, read_filter
from parser.speed.rows import OK, Row, turn_speeds
from parser.speed.statistics import Estimate, parallel_share, parallel_share_at, ratio_of

PAPER_SIZE = 64
PARTS: Mapping[str, Sequence[str]] = {
    "cells, forward": [CELLS],
    "forward": ["graph", "scheduling", "forward", CELLS],
    "cells, backward": [CELLS_BACKWARD],
    "backward": ["backward", CELLS_BACKWARD],
}
"""Parts of a step and their phases, for plugins that measure modules (`cells`) separately (Suarez & Zhu 2017,
Figures 2 and 3)."""
STEP = "whole step"
Gains = dict[str, dict[str, dict[int, float]]]
"""Part -> method -> batch size -> speed-up over `none` at that size."""


class MethodComparison(NamedTuple):
    """The rows of one experiment in one mode, device and precision, which differ in method and batch size."""

    experiment: str
    plugin: str
    mode: str
    device: str
    threads: int
    precision: str
    rows: list[Row]

    @property
    def title(self) -> str:
        return f"{self.experiment}, {self.mode}, {device_title(self.device, self.threads, self.precision)}"

    @property
    def name(self) -> str:
        """For names of pictures."""
        parts = [self.experiment, self.mode, self.device, str(self.threads)]
        return "-".join(parts if self.precision == "float32" else [*parts, self.precision])

    def by_method(self) -> dict[str, list[Row]]:
        """The rows with measurements of each method, in the order of their batch sizes."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            if row["status"] == OK:
                found[row["method"]].append(row)
        return {method: sorted(rows, key=lambda row: row["batch_size"]) for method, rows in found.items()}


def comparisons(rows: Sequence[Row]) -> list[MethodComparison]:
    found: dict[tuple, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[key] for key in COMPARED)].append(row)
    return [MethodComparison(**dict(zip(COMPARED, key, strict=True)), rows=own) for key, own in found.items()]


def ratio(first: Row, second: Row) -> Estimate:
    """Sentences per second of the first row divided by those of the second."""
    return ratio_of(
        turn_speeds(first), turn_speeds(second), first["interleaved_group"] == second["interleaved_group"]
    )


def bracketed(text: str, rows: Sequence[Row]) -> str:
    """A text about some rows, in brackets if they were not measured interleaved."""
    return text if len({row["interleaved_group"] for row in rows}) == 1 else f"({text})"


def speed_ups(rows: Sequence[Row]) -> dict[int, Estimate]:
    """Over batches of 1, for each batch size; empty if these are missing. rows: of one method."""
    if not rows or rows[0]["batch_size"] != 1:
        return {}
    return {row["batch_size"]: ratio(row, rows[0]) for row in rows}


def parallel_shares(rows: Sequence[Row]) -> tuple[Estimate, float | None] | None:
    """By Amdahl's law, fitted over all batch sizes, and by the paper's formula at 64. rows: of one method."""
    gains = speed_ups(rows)
    if len(gains) < 2:
        return None
    fitted = parallel_share(list(gains), [turn_speeds(row) for row in rows])
    at_paper_size = parallel_share_at(PAPER_SIZE, gains[PAPER_SIZE].value) if PAPER_SIZE in gains else None
    return fitted, at_paper_size


def gains_of_parts(comparison: MethodComparison) -> Gains:
    """The speed-up of each part of a step over `none`; empty if modules are not measured separately.

    The parts' shares of a step are from one turn, the time of a step is from all turns. Parts that `none`
    does not have are left out.
    """
    methods = comparison.by_method()
    unbatched = {row["batch_size"]: row for row in methods.pop(NO_BATCHING, [])}
    found: Gains = {}
    for part in (*PARTS, STEP):
        gains = {
            method: {
                size: seconds_of(unbatched[size], part) / seconds_of(row, part)
                for row in rows
                if (size := row["batch_size"]) in unbatched and seconds_of(row, part) > 0
            }
            for method, rows in methods.items()
        }
        if any(gain for of_method in gains.values() for gain in of_method.values()):
            found[part] = {method: of_method for method, of_method in gains.items() if of_method}
    return found if next(iter(PARTS)) in found else {}


def seconds_of(row: Row, part: str) -> float:
    """Seconds for each sentence. part: a key of PARTS, or STEP."""
    step = 1 / row["sentences_per_second"]
    if part == STEP:
        return step
    phases = sum(row["phase_seconds"].get(phase, 0.0) for phase in PARTS[part])
    return step * phases / sum(row["phase_seconds"].values())


def read_ratio(text: str) -> tuple[Filter, Filter]:
    """The two cells of "method=replay,batch_size=64/method=none". Raises ValueError."""
    left, slash, right = text.partition("/")
    if not slash:
        example = "method=replay,batch_size=64/method=step,batch_size=64"
        raise ValueError(f"--ratio {text}: write two cells, as {example}")
    return read_filter(left), read_filter(right)


def ratio_lines(rows: Sequence[Row], text: str) -> list[str]:
    """A line for each pair of cells that differ only in the keys of the text.

    text: for `read_ratio`. Raises ValueError if there is no such pair.
    """
    conditions = read_ratio(text)
    named = conditions[0].keys() | conditions[1].keys()
    measured = [row for row in rows if row["status"] == OK]
    lines = []
    for first in _passing(measured, conditions[0]):
        for second in _passing(measured, conditions[1]):
            if all(first[key] == second[key] for key in KEYS if key not in named):
                lines.append(_ratio_line(first, second))
    if not lines:
        raise ValueError(f"--ratio {text}: no two measured cells differ only in these keys")
    return lines


def _passing(rows: Sequence[Row], conditions: Filter) -> list[Row]:
    return [row for row in rows if passes(row, conditions)]


def _ratio_line(first: Row, second: Row) -> str:
    interleaved = first["interleaved_group"] == second["interleaved_group"]
    how = "interleaved" if interleaved else "not interleaved: the machine may have changed"
    same_place = all(first[key] == second[key] for key in ("device", "threads", "precision"))
    where = [device_title(first["device"], first["threads"], first["precision"])] if same_place else []
    shared = ", ".join([*(first[key] for key in ("experiment", "mode") if first[key] == second[key]), *where])
    names = [f"{row['method']} at {row['batch_size']}" for row in (first, second)]
    if first["precision"] != second["precision"]:
        names = [f"{name} in {row['precision']}" for name, row in zip(names, (first, second), strict=True)]
    return f"{shared}: {names[0]} / {names[1]} = {ratio(first, second)} ({how})"
