"""Compares batching methods: a section for each experiment, mode and device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from parser.pages.document import Section, Table, cells_at
from parser.speed.measuring.rows import CellRow, FailedRow, SpeedRow
from parser.speed.measuring.run import RunRows
from parser.speed.reporting.speed_up_plots import plots
from parser.speed.reporting.speed_ups import (
    MFU,
    PAPER_SIZE,
    SCALING,
    STEP,
    Comparison,
    baseline_of,
    bracketed,
    by_method,
    comparisons,
    gains_of_parts,
    in_order,
    parallel_shares,
    ratio,
    sizes_of,
)
from parser.speed.tasks.plugin import OTHER, PHASES
from parser.system.machine import MemoryUse

PARALLEL = (
    "Parallel share: the part p of the time of a single example that is divided by the batch size B, by "
    "Amdahl's law: time(B) / time(1) = (1 - p) + p / B."
)


def sections(run: RunRows) -> Iterator[Section]:
    for comparison in comparisons(run.cells):
        cell = comparison[0]
        tables = [
            _speeds(comparison),
            _method_ratios(comparison),
            _part_speed_ups(comparison),
            _shares(comparison),
            _phase_times(comparison),
            _counts(comparison),
        ]
        failed = [row for row in comparison if isinstance(row, FailedRow)]
        failures = [f"{_name(row)}: {row.status}." for row in failed]
        name = picture_name(comparison)
        pictures = {f"{name}-{kind}": figure for kind, figure in plots(comparison).items()}
        yield Section(f"{cell.experiment}, {cell.mode}, {cell.place}", pictures, tables, failures=failures)


def picture_name(comparison: Comparison) -> str:
    cell = comparison[0]
    precision = [] if cell.precision == "float32" else [cell.precision]
    return "-".join([cell.experiment, cell.mode, cell.device, str(cell.threads), *precision])


def _name(row: CellRow) -> str:
    return f"{row.method} at {row.batch_size}"


def _speeds(comparison: Comparison) -> Table:
    columns = (
        *("method", "batch", f"{comparison[0].examples}/s", "95 % interval", "tokens/s", "speed-up"),
        *("scaling", "MFU", "with update", "padding", "calls/step", "memory", "first run", "turns"),
    )
    baseline = baseline_of(comparison)
    note = ""
    if baseline:
        note = f"Speed-up: over `{baseline.method}` at batch size {baseline.batch_size:,}. {SCALING} {MFU}"
    cells = [_cells(row, comparison) for row in comparison]
    return Table(columns, [row + [""] * (len(columns) - len(row)) for row in cells], note)


def _cells(row: CellRow, comparison: Comparison) -> list[str]:
    """Return the cells of a row; if it has no measurements, the last one is its status."""
    head = [row.method, str(row.batch_size)]
    baseline = baseline_of(comparison)
    if isinstance(row, FailedRow) or baseline is None:
        return [*head, row.status.partition(":")[0]]
    smallest = by_method(comparison)[row.method][0]
    return [
        *head,
        _number(row.sentences_per_second),
        f"{_number(row.speed.low)} to {_number(row.speed.high)}",
        _number(row.tokens_per_second),
        _gain(row, baseline),
        _gain(row, smallest) if smallest.batch_size == 1 else "",
        f"{row.mfu:.3f}",
        f"{row.mfu_with_update:.3f}",
        "" if row.padding_share is None else f"{100 * row.padding_share:.1f} %",
        "" if row.calls_per_step is None else f"{row.calls_per_step:,.0f}",
        _memory(row.memory),
        f"{row.first_seconds:.2f} s",
        str(len(row.turns)),
    ]


def _gain(row: SpeedRow, other: SpeedRow) -> str:
    return bracketed(f"{ratio(row, other).value:.2f}", [row, other])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _memory(memory: MemoryUse) -> str:
    text = f"{memory.host / 2**30:.2f} GiB"
    if memory.device_reserved:
        text += (
            f"; device {memory.device_allocated / 2**30:.2f} allocated, "
            f"{memory.device_reserved / 2**30:.2f} reserved"
        )
    return text


def _method_ratios(comparison: Comparison) -> Table:
    """Return the ratios of each method's speed to those of earlier methods at the same batch size."""
    methods, sizes = by_method(comparison), sizes_of(comparison)
    lines = []
    for second, first in combinations(methods, 2):
        cells = [{row.batch_size: row for row in methods[method]} for method in (first, second)]
        pairs = [[own[size] for own in cells if size in own] for size in sizes]
        ratios = [bracketed(str(ratio(*pair)), pair) if len(pair) == 2 else "" for pair in pairs]
        if any(ratios):
            lines.append([f"{first} / {second}", *ratios])
    return Table((f"{comparison[0].examples}/s, at batch", *map(str, sizes)), lines)


def _part_speed_ups(comparison: Comparison) -> Table:
    """Return the speed-up of each part of a step over `none`."""
    parts = gains_of_parts(comparison)
    pairs = [(method, size) for method, gains in parts.get(STEP, {}).items() for size in gains]
    lines = []
    for method, size in pairs:
        gains = [of_part.get(method, {}).get(size) for of_part in parts.values()]
        lines.append([f"{method} at {size}", *("" if gain is None else f"{gain:.2f}" for gain in gains)])
    return Table(("speed-up over none, at the same batch size", *parts), lines)


def _shares(comparison: Comparison) -> Table:
    lines = []
    for method, rows in by_method(comparison).items():
        if shares := parallel_shares(rows):
            fitted, at_paper_size = shares
            interval = f"{100 * fitted.low:.2f} to {100 * fitted.high:.2f} %"
            at_64 = [row for row in rows if row.batch_size in (1, PAPER_SIZE)]
            paper = "" if at_paper_size is None else bracketed(f"{100 * at_paper_size:.2f} %", at_64)
            fit = [bracketed(text, rows) for text in (f"{100 * fitted.value:.2f} %", interval)]
            lines.append([method, *fit, paper])
    return Table(
        ("method", "parallel share, all sizes", "95 % interval", "from 64 over 1 only"), lines, PARALLEL
    )


def _phase_times(comparison: Comparison) -> Table:
    """Return the time of each phase."""
    rows = in_order(comparison)
    phases = [phase for phase in (*PHASES, OTHER) if any(phase in row.phase_seconds for row in rows)]
    lines = [
        [_name(row), *(f"{1e6 * row.phase_seconds.get(phase, 0.0):,.0f}" for phase in phases)] for row in rows
    ]
    return Table((f"microseconds for one of the {comparison[0].examples}", *phases), lines)


def _counts(comparison: Comparison) -> Table:
    """Return further counts of plugins."""
    rows = [row for row in in_order(comparison) if row.counts]
    names = list(dict.fromkeys(name for row in rows for name in row.counts))
    return Table(
        ("in each step", *names), [[_name(row), *cells_at(row.counts, names, _number)] for row in rows]
    )
