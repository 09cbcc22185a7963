"""The report of a speed run: tables and plots."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from parser.plugins import OTHER, PHASES
from parser.speed.asynchrony import asynchrony_parts
from parser.speed.convergence import convergence_parts
from parser.speed.document import HTML, Heading, Part, Picture, Table, write_document
from parser.speed.external_report import external_parts
from parser.speed.figures import figures
from parser.speed.findings import (
    PAPER_SIZE,
    STEP,
    MethodComparison,
    bracketed,
    comparisons,
    gains_of_parts,
    parallel_shares,
    ratio,
)
from parser.speed.learning_report import learning_parts
from parser.speed.rows import OK, Row
from parser.speed.run import CONFIG
from parser.speed.utilisation import utilisation_parts
from parser.speed.utilisation_by_layer_size import utilisation_by_layer_size_parts

COLUMNS = (
    "method",
    "batch",
    "sentences/s",
    "95 % interval",
    "tokens/s",
    "speed-up",
    "MFU",
    "with update",
    "padding",
    "calls/step",
    "memory",
    "first run",
    "turns",
)

LEGEND = (
    "Sentences/s and tokens/s: medians over the turns, with a bootstrapped 95 % interval. With fewer than "
    "six turns the interval is hardly narrower than their range. Speed-up: over the method's own batches "
    "of 1. MFU: useful floating-point operations per second, divided by those of the machine's large "
    "matrix products in the same precision and run. Useful operations are those of matrix products, without "
    "padding and without the parameter update; the time of the update is left out, and included in `with "
    "update`. Asynchronous messages do not separate updates: their MFU includes them. Padding: share of "
    "the rows of LSTMs whose results are not used; empty where it is not counted, as with continuous "
    "batching. Calls/step: operator calls in a step; empty where workers make them. Memory: peak memory "
    "of the measured process, data and program included, without its worker processes. First run: the "
    "check of the results, which includes compilation and graph capture. Values in brackets (speed-ups, "
    "ratios, parallel shares) compare cells that were not measured interleaved: the machine may have "
    "changed in between. A cell ends when its interval is narrow enough, so intervals are slightly "
    "narrower than 95 %."
)


def write_report(rows: Sequence[Row], learned: Sequence[Row], external: Sequence[Row], folder: Path) -> Path:
    """Write report.md, plots/ and report.html into a run's folder. Returns the path of report.html.

    learned: the rows of learning curves; external: those of other programs.
    """
    compared = [
        *utilisation_parts(rows),
        *utilisation_by_layer_size_parts(rows),
        *asynchrony_parts(rows),
    ]
    training = [*learning_parts(learned), *convergence_parts(learned)]
    programs = external_parts(external)
    write_document(folder.name, [*_parts(rows, external, folder), *compared, *training, *programs], folder)
    return folder / HTML


def _parts(rows: Sequence[Row], external: Sequence[Row], folder: Path) -> list[Part]:
    parts: list[Part] = [Heading(1, f"Speed: {folder.name}"), *_conditions(rows or external)]
    if rows:
        parts.append(LEGEND)
    for comparison in comparisons(rows):
        parts.append(Heading(2, comparison.title))
        parts += [Picture(f"{comparison.name}-{kind}", svg) for kind, svg in figures(comparison).items()]
        parts.append(Table(COLUMNS, [_cells(row, comparison) for row in comparison.rows]))
        tables = (
            _method_ratios(comparison),
            _part_speed_ups(comparison),
            _shares(comparison),
            _phase_times(comparison),
            _counts(comparison),
        )
        parts += [table for table in tables if table.rows]
        parts += [f"{_name(row)}: {row['status']}." for row in comparison.rows if row["status"] != OK]
    return parts


def _conditions(rows: Sequence[Row]) -> list[Part]:
    """Machine, date, versions, and the command that repeats the run."""
    machines = {_machine(row) for row in rows}
    dates = sorted(row["date"][:10] for row in rows)
    versions = {f"torch {row['versions']['torch']}, Python {row['versions']['python']}" for row in rows}
    commits = sorted({row["commit"] or "unknown" for row in rows})
    seeds = sorted({str(row["seed"]) for row in rows if "seed" in row})
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    facts = [
        ["machine", "; ".join(sorted(machines))],
        ["date", when],
        ["versions", "; ".join(sorted(versions))],
        ["commit", ", ".join(commits)],
        ["seed", ", ".join(seeds)],
        ["matrix products", _ceilings(rows)],
        ["to repeat", "; ".join(_commands(rows))],
    ]
    return [Table(("", ""), [fact for fact in facts if fact[1]])]


def _commands(rows: Sequence[Row]) -> list[str]:
    """The commands that repeat the run; several if parts of its config were measured by several commands.

    Folders are placeholders, because reports may be moved.
    """
    command = f"stack-parser speed THIS_FOLDER/{CONFIG} --run ANOTHER_FOLDER"
    parts = dict.fromkeys(row.get("only", "") for row in rows)
    return [f"{command} --only {shlex.quote(part)}" if part else command for part in parts]


def _machine(row: Row) -> str:
    machine = row["machine"]
    parts = [f"{machine['cores']} cores of {machine['cpu']} ({machine['vectors']})", *machine["gpus"]]
    return ", ".join(parts)


def _ceilings(rows: Sequence[Row]) -> str:
    """Of each precision."""
    speeds: dict[str, list[float]] = {}
    for row in rows:
        if row["status"] == OK and "ceiling" in row:
            speeds.setdefault(row["precision"], []).append(row["ceiling"] / 1e9)
    texts = []
    for precision, own in speeds.items():
        low, high = f"{min(own):,.0f}", f"{max(own):,.0f}"
        text = f"{low} GFLOP/s" if low == high else f"{low} to {high} GFLOP/s"
        texts.append(text if precision == "float32" else f"{text} in {precision}")
    return "; ".join(texts)


def _name(row: Row) -> str:
    return f"{row['method']} at {row['batch_size']}"


def _cells(row: Row, comparison: MethodComparison) -> list[str]:
    head = [row["method"], str(row["batch_size"])]
    if row["status"] != OK:
        return [*head, row["status"].partition(":")[0], *[""] * (len(COLUMNS) - 3)]
    low, high = row["interval"]
    padding = row["padding_share"]
    return [
        *head,
        _number(row["sentences_per_second"]),
        f"{_number(low)} to {_number(high)}",
        _number(row["tokens_per_second"]),
        _gain(row, comparison.by_method()[row["method"]][0]),
        f"{row['mfu']:.3f}",
        f"{row['mfu_with_update']:.3f}",
        "" if padding is None else f"{100 * padding:.1f} %",
        "" if row["calls_per_step"] is None else f"{row['calls_per_step']:,.0f}",
        _memory(row["memory"]),
        f"{row['first_seconds']:.2f} s",
        str(len(row["turns"])),
    ]


def _gain(row: Row, smallest: Row) -> str:
    """The speed-up over the method's batches of 1."""
    if smallest["batch_size"] != 1:
        return ""
    return bracketed(f"{ratio(row, smallest).value:.2f}", [row, smallest])


def _method_ratios(comparison: MethodComparison) -> Table:
    """The speed of each method over those before it, at the same batch size."""
    methods = comparison.by_method()
    sizes = sorted({row["batch_size"] for rows in methods.values() for row in rows})
    lines = []
    for second, first in combinations(methods, 2):
        cells = [{row["batch_size"]: row for row in methods[method]} for method in (first, second)]
        pairs = [[own[size] for own in cells if size in own] for size in sizes]
        ratios = [bracketed(str(ratio(*pair)), pair) if len(pair) == 2 else "" for pair in pairs]
        if any(ratios):
            lines.append([f"{first} / {second}", *ratios])
    return Table(("sentences/s, at batch", *map(str, sizes)), lines)


def _part_speed_ups(comparison: MethodComparison) -> Table:
    """The speed-up of each part of a step over `none`."""
    parts = gains_of_parts(comparison)
    pairs = [(method, size) for method, gains in parts.get(STEP, {}).items() for size in gains]
    lines = []
    for method, size in pairs:
        gains = [of_part.get(method, {}).get(size) for of_part in parts.values()]
        lines.append([f"{method} at {size}", *("" if gain is None else f"{gain:.2f}" for gain in gains)])
    return Table(("speed-up over none", *parts), lines)


def _phase_times(comparison: MethodComparison) -> Table:
    """The time of each phase."""
    rows = [row for own in comparison.by_method().values() for row in own]
    phases = [phase for phase in (*PHASES, OTHER) if any(phase in row["phase_seconds"] for row in rows)]
    lines = [
        [_name(row), *(f"{1e6 * row['phase_seconds'].get(phase, 0.0):,.0f}" for phase in phases)]
        for row in rows
    ]
    return Table(("microseconds for each sentence", *phases), lines)


def _counts(comparison: MethodComparison) -> Table:
    """Further counts of plugins."""
    rows = [row for own in comparison.by_method().values() for row in own if row.get("counts")]
    names = list(dict.fromkeys(name for row in rows for name in row["counts"]))
    lines = [
        [_name(row), *(_number(row["counts"][name]) if name in row["counts"] else "" for name in names)]
        for row in rows
    ]
    return Table(("in each step", *names), lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _memory(memory: dict[str, int]) -> str:
    text = f"{memory['host'] / 2**30:.2f} GiB"
    if memory["device_reserved"]:
        text += (
            f"; device {memory['device_allocated'] / 2**30:.2f} allocated, "
            f"{memory['device_reserved'] / 2**30:.2f} reserved"
        )
    return text


def _shares(comparison: MethodComparison) -> Table:
    lines = []
    for method, rows in comparison.by_method().items():
        if shares := parallel_shares(rows):
            fitted, at_paper_size = shares
            interval = f"{100 * fitted.low:.2f} to {100 * fitted.high:.2f} %"
            at_64 = [row for row in rows if row["batch_size"] in (1, PAPER_SIZE)]
            paper = "" if at_paper_size is None else bracketed(f"{100 * at_paper_size:.2f} %", at_64)
            fit = [bracketed(text, rows) for text in (f"{100 * fitted.value:.2f} %", interval)]
            lines.append([method, *fit, paper])
    return Table(
        ("method", "parallel share (Amdahl), all sizes", "95 % interval", "from 64 over 1 only"), lines
    )
