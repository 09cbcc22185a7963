"""Compares batching methods: a section for each experiment, mode and device.

Its plots are speed, speed-up over one baseline, the time of each phase (Neubig et al. 2017, Figure 2), the
speed-up of each part of a step (Suarez & Zhu 2017, Figures 2 and 3), and how each method scales with the
batch size (Ding & Koehn 2019, Figure 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parser.evaluation.statistics import Estimate, exactly
from parser.pages.document import Section, Table, cells_at
from parser.pages.plot_style import (
    COLOURS,
    HEIGHT,
    LABEL_SIZE,
    PLAIN,
    REFERENCE,
    TITLE_SIZE,
    WIDTH,
    Curves,
    draw_lines,
    draw_panels,
    label_ends,
    legend_below,
    places_of,
    scale_by_size,
)
from parser.speed.measuring.rows import CellRow, FailedRow, SpeedRow
from parser.speed.measuring.run import RunRows
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
    scaling,
    sizes_of,
)
from parser.speed.reporting.titles import method_title, plot_title
from parser.speed.tasks.plugin import CELLS, CELLS_BACKWARD, NO_BATCHING, OTHER, PHASES

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
    smallest, used = by_method(comparison)[row.method][0], row.memory
    memory = f"{used.host / 2**30:.2f} GiB"
    if used.device_reserved:
        allocated, reserved = used.device_allocated / 2**30, used.device_reserved / 2**30
        memory += f"; device {allocated:.2f} allocated, {reserved:.2f} reserved"
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
        memory,
        f"{row.first_seconds:.2f} s",
        str(len(row.turns)),
    ]


def _gain(row: SpeedRow, other: SpeedRow) -> str:
    return bracketed(f"{ratio(row, other).value:.2f}", [row, other])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


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
    rows = in_order(comparison)
    phases = [phase for phase in (*PHASES, OTHER) if any(phase in row.phase_seconds for row in rows)]
    lines = [
        [_name(row), *(f"{1e6 * row.phase_seconds.get(phase, 0.0):,.0f}" for phase in phases)] for row in rows
    ]
    return Table((f"microseconds for one of the {comparison[0].examples}", *phases), lines)


def _counts(comparison: Comparison) -> Table:
    rows = [row for row in in_order(comparison) if row.counts]
    names = list(dict.fromkeys(name for row in rows for name in row.counts))
    return Table(
        ("in each step", *names), [[_name(row), *cells_at(row.counts, names, _number)] for row in rows]
    )


HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||", "----", "++++", "//", "\\\\", "xx")
PHASE_TITLES = {CELLS: "modules, forward", CELLS_BACKWARD: "modules, backward"}
SMALL_SHARE = 0.01
"""Share of the time of a step that counts as small."""
BAR = 0.2
"""Height of a horizontal bar in inches."""
WIDE_BAR = 1.5 * BAR
"""Height of a bar with the name of a method, in inches."""


def plots(comparison: Comparison) -> dict[str, Figure]:
    """Return figures by kind, without kinds for which nothing was measured.

    The scaling is last: a method that is slow without batching looks best there.
    """
    drawn = {
        "speed": _speed_plot(comparison),
        "speed-up": _speed_up_plot(comparison),
        "time": _time_plot(comparison),
        "parts": _parts_plot(comparison),
        "scaling": _scaling_plot(comparison),
    }
    return {kind: plot for kind, plot in drawn.items() if plot}


def _title(comparison: Comparison) -> str:
    return plot_title(comparison[0].experiment, comparison)


def _title_at_one_size(comparison: Comparison) -> str:
    return f"{_title(comparison)}; batch size {sizes_of(comparison)[0]:,}"


def _method(row: SpeedRow) -> str:
    return method_title(row.plugin, row.method)


def _speed_up_plot(comparison: Comparison) -> Figure | None:
    """Plot the speed-up over one baseline; None for a single batch size, as the speeds have the same bars."""
    baseline = baseline_of(comparison)
    if baseline is None or len(sizes_of(comparison)) == 1:
        return None
    curves: Curves = {
        bracketed(_method(rows[0]), [*rows, baseline]): {row.batch_size: ratio(row, baseline) for row in rows}
        for rows in by_method(comparison).values()
    }

    def finish(axes: Axes) -> None:
        axes.axhline(1, label=f"1: {_method(baseline)}, batch size {baseline.batch_size:,}", **REFERENCE)
        axes.set_ylabel("speed-up")
        scale_by_size(axes, curves)

    return draw_panels(_title(comparison), curves, finish)


def _scaling_plot(comparison: Comparison) -> Figure | None:
    """Plot the scaling, with the parallel share of each method at the end of its line."""
    curves: dict[str, dict[int, Estimate]] = {}
    ends: dict[str, str] = {}
    for rows in by_method(comparison).values():
        label, shares = _method(rows[0]), parallel_shares(rows)
        curves[label] = scaling(rows) if shares else {}  # there are at least two batch sizes
        if shares and shares[0].value > 0:
            ends[label] = bracketed(f"{100 * shares[0].value:.1f} % parallel", rows)
    sizes = places_of(curves.values())

    def finish(axes: Axes) -> None:
        axes.plot(sizes, sizes, label="ideal: as the batch size", **REFERENCE)
        axes.set_ylabel("over own batches of 1")
        scale_by_size(axes, curves)
        axes.set_yscale("log", base=2)  # always, since the ideal is then a line
        axes.autoscale(axis="y")
        axes.yaxis.set_major_formatter(PLAIN)
        label_ends(axes, curves, ends)

    title = plot_title(f"{comparison[0].experiment}, scaling with the batch size", comparison)
    return draw_panels(title, curves, finish) if sizes else None


def _speed_plot(comparison: Comparison) -> Figure | None:
    if len(sizes_of(comparison)) == 1:
        return _speed_bars(comparison)
    curves: Curves = {
        _method(rows[0]): {row.batch_size: row.speed for row in rows}
        for rows in by_method(comparison).values()
    }

    def finish(axes: Axes) -> None:
        axes.set_ylabel(f"{comparison[0].examples}/s")
        scale_by_size(axes, curves)

    return draw_panels(_title(comparison), curves, finish) if curves else None


def _speed_bars(comparison: Comparison) -> Figure:
    """Plot the speeds of methods at their only batch size."""
    rows = in_order(comparison)
    figure = Figure(figsize=(WIDTH, 1.3 + WIDE_BAR * len(rows)), layout="constrained")
    figure.suptitle(_title_at_one_size(comparison), fontsize=TITLE_SIZE)
    axes = figure.add_subplot()
    speeds = [row.sentences_per_second for row in rows]
    errors = list(zip(*(row.speed.errors for row in rows), strict=True))
    axes.barh(range(len(rows)), speeds, xerr=errors, capsize=2, color=COLOURS[5])
    axes.set_yticks(range(len(rows)), map(_method, rows), fontsize=LABEL_SIZE)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel(f"{comparison[0].examples}/s")
    axes.grid(True, axis="x", color="0.9")
    axes.set_axisbelow(True)
    return figure


def _parts_plot(comparison: Comparison) -> Figure | None:
    """Plot a panel for each part of a step; None for a single batch size, as the report has a table of it."""
    parts = gains_of_parts(comparison)
    if len({row.batch_size for row in comparison}) < 2 or not parts:
        return None
    lines = -(-len(parts) // 2)
    figure = Figure(figsize=(1.3 * WIDTH, 0.5 + 0.7 * HEIGHT * lines), layout="constrained")
    titles = {method: _method(rows[0]) for method, rows in by_method(comparison).items()}
    subject = f"{comparison[0].experiment}, parts of a step, over “{titles[NO_BATCHING]}”"
    figure.suptitle(plot_title(subject, comparison), fontsize=TITLE_SIZE)
    for number, (part, gains) in enumerate(parts.items(), start=1):
        axes = figure.add_subplot(lines, 2, number)
        curves: Curves = {
            title: {size: exactly(gain) for size, gain in gains.get(method, {}).items()}
            for method, title in titles.items()
        }
        draw_lines(axes, curves, [title for title, curve in curves.items() if curve])
        axes.axhline(1, **REFERENCE)
        axes.set_ylabel("speed-up", fontsize=LABEL_SIZE)
        scale_by_size(axes, curves)
        axes.set_title(part.replace("cells", "modules"), fontsize=TITLE_SIZE - 1)
    legend_below(figure)
    return figure


def _time_plot(comparison: Comparison) -> Figure | None:
    """Plot the phases of a step as stacked bars; None if all time is spent in one phase."""
    rows = in_order(comparison)
    phases = [phase for phase in (*PHASES, OTHER) if any(row.share(phase) > SMALL_SHARE for row in rows)]
    if len(phases) < 2:
        return None
    places: list[float] = []  # of the bars
    headings = []  # of methods, with their places
    if len(sizes_of(comparison)) > 1:
        title, names, bar, top = _title(comparison), [f"{row.batch_size:,}" for row in rows], BAR, 0.0
        for of_method in by_method(comparison).values():
            headings.append((top, _method(of_method[0])))
            places += [top + 1 + number for number in range(len(of_method))]
            top += len(of_method) + 1.4
    else:
        places += range(len(rows))
        title, names, bar = _title_at_one_size(comparison), [_method(row) for row in rows], WIDE_BAR
    figure = Figure(figsize=(WIDTH, 1.5 + bar * (max(places) + 2)), layout="constrained")
    figure.suptitle(title, fontsize=TITLE_SIZE)
    axes = figure.add_subplot()
    left = [0.0] * len(rows)
    for number, phase in enumerate([*PHASES, OTHER]):
        shares = [row.share(phase) for row in rows]
        if any(shares):
            axes.barh(
                places,
                shares,
                left=left,
                label=PHASE_TITLES.get(phase, phase),
                color=COLOURS[number],
                hatch=HATCHES[number],
                edgecolor="white",
                linewidth=0.3,
            )
            left = [start + share for start, share in zip(left, shares, strict=True)]
    for place, heading in headings:
        axes.text(0.005, place, heading, fontsize=LABEL_SIZE, va="center")
    axes.set_yticks(places, names, fontsize=LABEL_SIZE)
    axes.set_ylabel("batch size" if headings else "")
    axes.set_ylim(max(places) + 0.7, -0.7)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of a step")
    legend_below(figure)
    return figure
