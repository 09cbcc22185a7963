"""Latency of groups of sentences that are handed in at once: this program next to spaCy and UDPipe."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from figures.kept import latest, table
from parser.speed.measuring.statistics import Estimate, median_of, ratio_of
from parser.speed.reporting.plot_style import LABEL_SIZE, PLAIN, WIDTH, draw_lines, legend_below

ROWS = "speed/latency/external.jsonl"
OURS = "ud-fast"


def speeds() -> dict[str, dict[int, list[float]]]:
    """Sentences per second in each turn, by program and group size."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in latest(ROWS):
        program, _, size = row["name"].rpartition(", ")
        found.setdefault(program, {})[int(size)] = row["speeds"]
    return found


def milliseconds(size: int, speed: Estimate) -> Estimate:
    """Milliseconds until all trees of a group are parsed. speed: in sentences per second."""
    value, low, high = (1000 * size / each for each in (speed.value, speed.high, speed.low))
    return Estimate(value, low, high)


def latency() -> str:
    """Milliseconds of a group in each program, and the other programs' times over this program's."""
    found = speeds()
    sizes = sorted(found[OURS])
    times = [
        (
            f"`{program}`" if program == OURS else program,
            *(f"{milliseconds(size, median_of(own[size])).value:.3g}" for size in sizes),
        )
        for program, own in found.items()
    ]
    ratios = [
        (
            f"{program} over `{OURS}`",
            *(ratio_of(found[OURS][size], own[size], interleaved=True) for size in sizes),
        )
        for program, own in found.items()
        if program != OURS
    ]
    return table(("milliseconds for a group of", *sizes), [*times, *ratios])


def draw() -> Figure:
    """Two panels by group size: milliseconds, and sentences per second."""
    by_program = {
        program: {size: median_of(each) for size, each in own.items()} for program, own in speeds().items()
    }
    waiting = {
        program: {size: milliseconds(size, speed) for size, speed in own.items()}
        for program, own in by_program.items()
    }
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = sorted(by_program[OURS])
    for axes, curves, title in (
        (left, waiting, "milliseconds until all trees are there"),
        (right, by_program, "sentences per second"),
    ):
        draw_lines(axes, curves, list(curves))
        axes.set_title(title, fontsize=LABEL_SIZE)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("sentences handed in at once")
    left.set_yscale("log")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.yaxis.set_major_formatter(PLAIN)
    legend_below(figure)
    return figure


FIGURES: dict[str, Callable[[], str]] = {"latency": latency}
