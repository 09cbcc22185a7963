"""Writes the report of a run: pages with a section of each kind, and figures for TensorBoard."""

from __future__ import annotations

import shlex
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from torch.utils.tensorboard import SummaryWriter

from parser.evaluation.statistics import Estimate, median_of, ratio_of
from parser.pages.document import (
    HTML,
    PLOTS,
    Definitions,
    Heading,
    Part,
    Picture,
    Section,
    Table,
    write_document,
)
from parser.pages.plot_style import COLOURS, LABEL_SIZE, PLAIN, TITLE_SIZE, WIDTH, Look, save
from parser.speed.measuring.rows import OK, CellRow, ExternalRow, SpeedRow
from parser.speed.measuring.run import CONFIG, RunRows
from parser.speed.measuring.turns import is_busy
from parser.speed.reporting import asynchrony, comparison, grid, learning, utilisation
from parser.speed.reporting.speed_ups import baseline_of, by_method, comparisons, ratio, scaling
from parser.speed.reporting.titles import without_files

BOARD = "tensorboard"
NUMBERS = ("sentences_per_second", "tokens_per_second", "mfu", "padding_share", "calls_per_step")

PROGRAM_COLUMNS = ("program", "examples/s", "95 % interval", "over the first", "turns", "command")
BAR_HEIGHT = 0.35
"""Height of a bar in inches."""
LEGEND = Definitions(
    {
        "sentences/s, or what else is counted, and tokens/s": "medians over the turns.",
        "95 % interval": (
            "of the median, bootstrapped over the turns of this run on this machine. It says nothing "
            "about other machines, or other days. With fewer than six turns it is hardly narrower "
            "than their range. A cell ends when its interval is narrow enough, so intervals are "
            "slightly narrower than 95 %."
        ),
        "speed-up": "over the cell named above the table, one for all methods.",
        "scaling": "over the method's own batches of 1.",
        "in brackets": (
            "values and names of lines (speed-ups, ratios, parallel shares) that compare cells which "
            "were not measured in turns: the machine may have changed in between."
        ),
        "MFU": (
            "useful floating-point operations per second, divided by those of the machine's large "
            "matrix products in the same precision and run. Useful operations are those of matrix "
            "products, without padding and without the parameter update, whose time is left out."
        ),
        "with update": (
            "the same, with the time of the update. Asynchronous messages do not separate updates: "
            "their MFU includes them."
        ),
        "padding": (
            "share of the rows of LSTMs whose results are not used; empty where it is not counted, "
            "as with continuous batching."
        ),
        "calls/step": "operator calls in a step; empty where workers make them.",
        "memory": (
            "peak memory of the measured process, data and program included, without its worker processes."
        ),
        "first run": "the check of the results, which includes compilation and graph capture.",
        "microseconds": (
            "of each phase, in a further turn. Measuring the phases takes time, too, so their sum can "
            "differ from the time that the speed gives."
        ),
        "turns": "how often the cell was measured, in turns with the others.",
    }
)
"""Explanations of columns."""


def program_sections(run: RunRows) -> Iterator[Section]:
    """Yield a section for the other programs of each task. Ratios are relative to the first one measured."""
    for task in dict.fromkeys(row.task for row in run.external):
        rows = [row for row in run.external if row.task == task]
        done = [(row, median_of(row.speeds)) for row in rows if row.status == OK]
        failures = [f"{row.name}: {row.status}." for row in rows if row.status != OK]
        title = f"Programs in turns: {task}" if task else "Programs in turns"
        plots = {f"programs-{task}" if task else "programs": _programs_plot(done, title)} if done else {}
        cells = [
            [
                row.name,
                f"{speed.value:,.0f}",
                f"{speed.low:,.0f} to {speed.high:,.0f}",
                str(ratio_of(row.speeds, done[0][0].speeds, interleaved=True)),
                str(len(row.speeds)),
                f"`{row.command}`",
            ]
            for row, speed in done
        ]
        yield Section(title, plots, [Table(PROGRAM_COLUMNS, cells)], failures=failures)


def _programs_plot(speeds: Sequence[tuple[ExternalRow, Estimate]], title: str) -> Figure:
    figure = Figure(figsize=(WIDTH, 1 + BAR_HEIGHT * len(speeds)), layout="constrained")
    axes = figure.add_subplot()
    for place, (_, speed) in enumerate(speeds):
        errors = [[error] for error in speed.errors]
        axes.barh(place, speed.value, xerr=errors, color=COLOURS[place % len(COLOURS)], capsize=2)
        axes.annotate(f" {speed.value:,.0f}", (speed.high, place), va="center", fontsize=LABEL_SIZE)
    axes.set_yticks(range(len(speeds)), [row.name for row, _ in speeds])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set_xlabel("examples/s, median of the turns with its 95 % interval")
    axes.set_title(title, fontsize=TITLE_SIZE)
    return figure


KINDS: Sequence[Callable[[RunRows], Iterable[Section]]] = (
    comparison.sections,
    grid.sections,
    utilisation.sections,
    asynchrony.sections,
    asynchrony.frequency_sections,
    learning.sections,
    asynchrony.convergence_sections,
    program_sections,
)
"""The functions that return the sections of a report, in this order, from the rows of a run."""


def write_report(run: RunRows, folder: Path, name: str) -> Path:
    """Write report.md, plots/, report.html and BOARD into a folder. Returns the path of report.html.

    name: the name of the run.
    """
    parts: list[Part] = [Heading(1, f"Speed: {name}"), _conditions(run.cells or run.external)]
    if run.cells:
        parts.append(LEGEND)
    for sections in KINDS:
        parts += [part for section in sections(run) for part in section.parts]
    write_document(name, parts, folder)
    _write_board(run.measured, folder)
    return folder / HTML


def write_pictures(run: RunRows, folder: Path, look: Look, plot: str = "") -> list[Path]:
    """Write only the plots, as files in PLOTS. Returns their paths.

    plot: the name of a plot, or the end of several names, such as "speed-up"; empty for all plots. Raises
    OSError, and ValueError if there is no plot of that name.
    """
    parts = [part for sections in KINDS for section in sections(run) for part in section.parts]
    pictures = [part for part in parts if isinstance(part, Picture)]
    chosen = [each for each in pictures if not plot or f"-{each.file}".endswith(f"-{plot}")]
    if not pictures:
        raise ValueError("there is no plot: nothing was measured")
    if not chosen:
        raise ValueError(f"there is no plot {plot!r}; available: {', '.join(each.file for each in pictures)}")
    (folder / PLOTS).mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in chosen:
        paths.append(folder / PLOTS / f"{picture.file}.{look.format}")
        picture.figure.suptitle(without_files(picture.figure.get_suptitle()), fontsize=TITLE_SIZE)
        save(picture.figure, paths[-1], look)
    return paths


def _conditions(rows: Sequence[CellRow] | Sequence[ExternalRow]) -> Table:
    """Return machine, date, versions, and the commands that repeat the run.

    There are several commands if parts of its config were measured separately. Their folders are
    placeholders, because reports can be moved.
    """
    cells = [row for row in rows if not isinstance(row, ExternalRow)]
    measured = [row for row in cells if isinstance(row, SpeedRow)]
    dates = sorted(each.date[:10] for each in rows)
    machines = {
        ", ".join([f"{each.cores} cores of {each.cpu} ({each.vectors})", *each.gpus])
        for each in (row.machine for row in rows)
    }
    command = f"stack-parser speed THIS_FOLDER/{CONFIG} --run ANOTHER_FOLDER"
    parts = dict.fromkeys(row.only for row in cells) or [""]
    commands = [f"{command} --only {shlex.quote(part)}" if part else command for part in parts]
    facts = {
        "machine": "; ".join(sorted(machines)),
        "date": dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
        "versions": "; ".join(
            sorted({f"torch {each.versions.torch}, Python {each.versions.python}" for each in rows})
        ),
        "commit": ", ".join(sorted({each.commit or "unknown" for each in rows})),
        "seed": ", ".join(sorted({str(row.seed) for row in cells})),
        "matrix products": _ceilings(measured),
        "other programs": _other_programs(measured),
        "plugins of others": ", ".join(
            sorted({f"{row.plugin} {row.plugin_commit}" for row in measured if row.plugin_commit})
        ),
        "to repeat": "; ".join(commands),
    }
    return Table(("", ""), [fact for fact in facts.items() if fact[1]])


def _other_programs(rows: Sequence[SpeedRow]) -> str:
    """Return how busy other programs kept the machine; empty if that is unknown."""
    known = [row for row in rows if row.busy_cores is not None]
    busy = [row for row in known if is_busy(row.busy_cores or 0.0, row.machine.cores or 1)]
    if not busy:
        return "the machine was quiet" if known else ""
    cores = max(row.busy_cores or 0.0 for row in busy)
    return f"the machine was busy in {len(busy)} of {len(known)} cells: they used up to {cores:.1f} cores"


def _ceilings(rows: Sequence[SpeedRow]) -> str:
    """Return the ceiling of each precision as text."""
    speeds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        speeds[row.precision].append(row.ceiling / 1e9)
    texts = []
    for precision, own in speeds.items():
        low, high = f"{min(own):,.0f}", f"{max(own):,.0f}"
        text = f"{low} GFLOP/s" if low == high else f"{low} to {high} GFLOP/s"
        texts.append(text if precision == "float32" else f"{text} in {precision}")
    return "; ".join(texts)


def _write_board(rows: Sequence[SpeedRow], folder: Path) -> None:
    """Write figures for TensorBoard, replacing older ones. The batch size takes the place of the step."""
    shutil.rmtree(folder / BOARD, ignore_errors=True)
    with SummaryWriter(str(folder / BOARD)) as board:
        for compared in comparisons(rows):
            baseline = baseline_of(compared)
            for method, own in by_method(compared).items():
                tag = f"{comparison.picture_name(compared)}/{method}"
                for row in own:
                    values = {name: getattr(row, name) for name in NUMBERS}
                    phases = row.phase_seconds.items()
                    values |= {f"seconds_per_sentence/{phase}": seconds for phase, seconds in phases}
                    if baseline:
                        values["speed_up"] = ratio(row, baseline).value
                    for name, value in values.items():
                        if value is not None:
                            board.add_scalar(f"{tag}/{name}", value, row.batch_size)
                for size, gain in scaling(own).items():
                    board.add_scalar(f"{tag}/scaling", gain.value, size)
