"""Batching by level: programs of modules and mixtures of experts, compared with Suarez & Zhu (2017)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from figures.kept import SpeedRun, printed, rows, speed_run, table
from parser.speed.measuring.statistics import Estimate
from parser.speed.reporting.speed_ups import STEP, comparisons, gains_of_parts

FORWARD, WHOLE_FORWARD = "cells, forward", "forward"
BACKWARD, WHOLE_BACKWARD = "cells, backward", "backward"
SIMPLE_WAYS = "none", "loop", "library"
SIZES = 1, 8, 64, 320, 640, 850
PAPERS_GRID = (
    ("1,190", "676", "89.0", "10.7", "1.79"),
    ("699", "87.4", "9.80", "1.65", "0.86"),
    ("86.2", "9.40", "1.56", "1.33", "1.22"),
    ("9.43", "1.41", "1.00", "0.99", "0.98"),
    ("1.00", "1.00", "1.00", "1.03", "1.01"),
)
"""The paper's Figure 3: rows are batches of 10,000 down to 1, columns are 1 to 10,000 experts.

Read by the figure's colours. Its digits are transposed: the authors' `MOE.py` writes `dat[i, j]` at (i, j).
"""


def gain(run: SpeedRun, experiment: str, mode: str, part: str, method: str, size: int) -> str:
    """Speed-up of a part of a step over `none` at this batch size; empty if it was not measured."""
    own = [row for row in run.rows if (row.experiment, row.mode) == (experiment, mode)]
    [comparison] = comparisons(own)
    return short(gains_of_parts(comparison).get(part, {}).get(method, {}).get(size))


def short(value: float | None) -> str:
    """A number with three digits; empty if there is none."""
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def short_estimate(estimate: Estimate) -> str:
    return f"{estimate:.{2 if estimate.value < 10 else 1}f}"


def programs() -> str:
    """Speed-ups of training small networks on CLEVR's questions, and the numbers of calls."""
    run = speed_run("levels")

    def gains(part: str) -> list[str]:
        return [gain(run, "programs", "train", part, "levels", size) for size in SIZES]

    def over_columns(size: int) -> str:
        if not run.has("programs", f"columns@{size}"):
            return ""
        speeds = [run.cell("programs", f"{way}@{size}").sentences_per_second for way in ("levels", "columns")]
        return short(speeds[0] / speeds[1])

    def calls(size: int) -> str:
        counts = run.cell("programs", f"levels@{size}").counts
        by = {"levels": counts["calls of modules"], "agenda": counts["calls by agenda"]}
        if run.has("programs", f"columns@{size}"):
            by["columns"] = run.cell("programs", f"columns@{size}").counts["calls of modules"]
        return ", ".join(f"{by[way]:.0f}" if way in by else "-" for way in ("levels", "columns", "agenda"))

    return table(
        ("`levels` over `none`, batches of", *SIZES),
        (
            ("cells, forward", *gains(FORWARD)),
            ("cells, backward", *gains(BACKWARD)),
            ("whole step", *gains(STEP)),
            ("`levels` over `columns`, whole step", *map(over_columns, SIZES)),
            ("calls by `levels`, `columns`, `agenda`", *map(calls, SIZES)),
        ),
    )


def programs_elsewhere() -> str:
    """Speed-ups on CLEVR's questions at other sizes and on another machine."""
    cells = (
        ("on a quiet machine", "levels/quiet", "programs", (64, 320, 640)),
        ("32 channels", "levels", "programs-32", (64,)),
        ("the paper's sizes, generated questions", "levels", "programs-paper", (64,)),
    )
    lines = []
    for what, folder, experiment, sizes in cells:
        run = speed_run(folder)
        for size in sizes:
            parts = (FORWARD, BACKWARD, STEP)
            lines.append(
                (what, size, *(gain(run, experiment, "train", part, "levels", size) for part in parts))
            )
    return table(("`levels` over `none`", "batch", "cells, forward", "cells, backward", "whole step"), lines)


def sliced_programs() -> str:
    """Speed-ups when rows are gathered and scattered, and when they are sliced as in the authors' code."""
    run = speed_run("levels")
    return table(
        ("over `none`", "batch", "forward", "backward"),
        (
            (
                f"`{method}`",
                size,
                *(
                    gain(run, "programs", "train", part, method, size)
                    for part in (WHOLE_FORWARD, WHOLE_BACKWARD)
                ),
            )
            for size in (640, 850)
            for method in ("levels", "sliced")
        ),
    )


def programs_at_paper_sizes() -> str:
    """Speed-ups over `none` on CLEVR's questions. The largest batches were measured on another machine."""
    here, large = speed_run("levels/paper-sizes"), speed_run("levels/batches-of-1024")
    cells = [(here, size) for size in (1, 8, 64, 256)] + [(large, 1024)]
    experiment = "programs-paper"

    def over_none(run: SpeedRun, size: int) -> str:
        base = next(cell for cell in (f"none@{size}", "none@64") if run.has(experiment, cell))
        return short_estimate(run.ratio(experiment, f"levels@{size}", base))

    def part(name: str) -> list[str]:
        return [gain(run, experiment, "train", name, "levels", size) for run, size in cells]

    gibibytes = [run.cell(experiment, f"levels@{size}").memory.host / 2**30 for run, size in cells]
    return table(
        ("`levels` over `none`, batches of", *(f"{size:,}" for _, size in cells)),
        [
            ("calls of modules, forward (the paper: 14.1)", *part(FORWARD)),
            ("calls of modules, backward", *part(BACKWARD)),
            ("forward pass (5.5)", *part(WHOLE_FORWARD)),
            ("backward pass (2)", *part(WHOLE_BACKWARD)),
            ("whole step", *(over_none(run, size) for run, size in cells)),
            ("MFU", *(f"{run.cell(experiment, f'levels@{size}').mfu:.2f}" for run, size in cells)),
            ("GiB of memory", *(f"{size:.1f}" for size in gibibytes)),
        ],
    )


def single_modules() -> str:
    """The possible gain from pooling, computed from the times of single modules."""
    networks = {"128 channels, as in the paper": "programs-paper", "16 channels": "programs"}
    pattern = r"levels +at +(\d+): .* ([\d.]+) times .* forward, ([\d.]+) backward, ([\d.]+) both"
    found = []
    for title, experiment in networks.items():
        lines = printed_of_modules(experiment)
        alone = shares_of_products(lines, "unary")[1]
        matches = (re.fullmatch(pattern, line) for line in lines)
        found += [(title, f"{alone:.2f}", *match.groups()) for match in matches if match]
    header = (
        "",
        "a call with one image, share of large products",
        "batches of",
        "forward",
        "backward",
        "both",
    )
    return table(header, found)


def single_experts() -> str:
    """The possible gain for experts: a call's share of the speed of large products, and the bound from it."""
    rows_each = 1, 10, 100, 1000, 10_000
    found = []
    for title, experiment in (("one expert", "experts-1"), ("100 experts in turn", "experts-100")):
        shares = shares_of_products(printed_of_modules(experiment), "expert")
        found += [
            (f"{title}, share of large products", *(f"{shares[rows]:.3f}" for rows in rows_each)),
            (f"{title}, over single rows", *(f"{shares[rows] / shares[1]:.1f}" for rows in rows_each)),
        ]
    return table(("rows in each call", *(f"{rows:,}" for rows in rows_each)), found)


def printed_of_modules(experiment: str) -> list[str]:
    """The lines that the study of single modules printed for an experiment."""
    return printed("speed/printed.jsonl", f"measure_modules.py configs/speed/levels.yaml {experiment} ")


def shares_of_products(lines: Sequence[str], module: str) -> dict[int, float]:
    """A module's share of the speed of large products, by the number of images or rows in a call."""
    pattern = rf"{module} +(\d+) .*; forward ([\d.]+) of large products"
    matches = (re.fullmatch(pattern, line) for line in lines)
    return {int(match[1]): float(match[2]) for match in matches if match}


def experts_grid() -> str:
    """Figure 3: the speed-up of batched calls of experts over single calls, here and in the paper."""
    run, sizes = speed_run("levels"), (10_000, 1000, 100, 10, 1)
    experiments = [f"experts-{number}" for number in reversed(sizes)]
    ours = [[gain(run, name, "infer", FORWARD, "static", size) for name in experiments] for size in sizes]
    return table(
        (
            "batches of; the paper's in parentheses",
            "1 expert",
            *(f"{size:,} experts" for size in sizes[-2::-1]),
        ),
        (
            (f"{size:,}", *(f"{own} ({theirs})" for own, theirs in zip(line, paper, strict=True)))
            for size, line, paper in zip(sizes, ours, PAPERS_GRID, strict=True)
        ),
    )


def experts() -> str:
    """Speed-ups over `none` in inference with 100 experts, one of which is chosen."""
    run, sizes = speed_run("levels"), (1, 10, 100, 1000, 10_000)

    def line(title: str, part: str, method: str) -> list[str]:
        return [title, *(gain(run, "experts-100", "infer", part, method, size) for size in sizes)]

    return table(
        ("100 experts, batches of", *(f"{size:,}" for size in sizes)),
        (
            line("cells, `static`", FORWARD, "static"),
            line("with gate, sorting and gathering", WHOLE_FORWARD, "static"),
            line("cells, `grouped`", FORWARD, "grouped"),
            line("with gate, sorting and gathering", WHOLE_FORWARD, "grouped"),
        ),
    )


def largest_batches_of_experts() -> str:
    """Speed-ups in batches of 10,000: on a quiet machine, and with 10,000 experts."""
    cells = (
        ("100 experts, on a quiet machine", "levels/quiet", "experts-100"),
        ("10,000 experts, which take 5 GB", "levels", "experts-10000"),
    )
    lines = []
    for title, folder, experiment in cells:
        gains = [
            gain(speed_run(folder), experiment, "infer", part, method, 10_000)
            for method in ("static", "grouped")
            for part in (FORWARD, WHOLE_FORWARD)
        ]
        lines.append((title, *gains))
    return table(("batches of 10,000", "`static`, cells", "in all", "`grouped`, cells", "in all"), lines)


def simple_ways_of_experts() -> str:
    """The speeds of our methods over no batching, and over the way of `transformers`."""
    run = speed_run("levels/experts")
    modes = {"infer": "inference", "train": "training"}
    ours = {100: ["static"], 1000: ["static"], 10_000: ["static", "grouped"]}
    kinds = {"one chosen": "experts-100", "one, noisy gate": "experts-100-noisy", "two": "experts-100-top-2"}
    lines = [
        (title, modes[mode], f"`{method}`, {size:,}", *over(run, experiment, method, size, mode))
        for title, experiment in kinds.items()
        for mode in modes
        for size in ours
        for method in ours[size]
        if run.has(experiment, f"{method}@{size}", mode)
    ]
    return table(("100 experts", "", "batches of", *(f"over `{other}`" for other in SIMPLE_WAYS)), lines)


def over(run: SpeedRun, experiment: str, method: str, size: int, mode: str) -> list[str]:
    """The speed of a method over that of each simple way in the same turns."""
    cells = (f"{other}@{size}" for other in SIMPLE_WAYS)
    return [short_estimate(run.ratio(experiment, f"{method}@{size}", cell, mode)) for cell in cells]


def chosen_experts() -> str:
    """Speed-ups by the number of chosen experts: with more per example, each call has more rows."""
    run = speed_run("levels/paper-sizes")
    names = {
        "one chosen": "experts-100",
        "two": "experts-100-top-2",
        "four": "experts-100-top-4",
    }
    cells = (*((size, "infer") for size in (100, 1000, 10_000)), (10_000, "train"))

    def over_none(experiment: str, size: int, mode: str) -> str:
        return short_estimate(run.ratio(experiment, f"static@{size}", f"none@{size}", mode))

    header = [f"{size:,}{', training' if mode == 'train' else ''}" for size, mode in cells]
    lines = ((title, *(over_none(name, *cell) for cell in cells)) for title, name in names.items())
    return table(("100 experts, `static` over `none`", *header), lines)


def learned_programs() -> str:
    """Accuracy of the learned programs by kind of question."""
    kept = sorted(rows("speed/levels/learned-programs.jsonl"), key=lambda row: (row["epoch"], row["method"]))
    header = [f"`{row['method']}`, {row['epoch']} epochs" for row in kept]
    lines: list[Sequence[str]] = [
        (kind.replace("_", " "), f"{guessed:.1f}", *(f"{row['accuracy'][kind]:.1f}" for row in kept))
        for kind, guessed in kept[0]["majority"].items()
    ]
    return table(("accuracy, %", "most frequent answer of each kind", *header), lines)


FIGURES: dict[str, Callable[[], str]] = {
    "chosen-experts": chosen_experts,
    "experts": experts,
    "experts-grid": experts_grid,
    "experts-largest-batches": largest_batches_of_experts,
    "experts-simple-ways": simple_ways_of_experts,
    "learned-programs": learned_programs,
    "programs": programs,
    "programs-at-paper-sizes": programs_at_paper_sizes,
    "programs-elsewhere": programs_elsewhere,
    "programs-sliced": sliced_programs,
    "single-experts": single_experts,
    "single-modules": single_modules,
}
