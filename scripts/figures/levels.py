"""Batching by level: programs of modules and mixtures of experts, compared with Suarez & Zhu (2017)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from figures.kept import grid, matches, printed, rows, speed_run, table
from parser.evaluation.statistics import Estimate
from parser.speed.reporting.speed_ups import STEP, comparisons, gains_of_parts

FORWARD, WHOLE_FORWARD = "cells, forward", "forward"
BACKWARD, WHOLE_BACKWARD = "cells, backward", "backward"
SIMPLE_WAYS = "none", "loop", "library"
SIZES = 1, 8, 64, 320, 640, 850
TENFOLD = {f"{size:,}": size for size in (1, 10, 100, 1000, 10_000)}
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


def gain(of: str, experiment: str, mode: str, part: str, method: str, size: int) -> str:
    """Speed-up of a part of a step over `none` at this batch size; empty if it was not measured."""
    measured = [row for row in speed_run(of).rows if (row.experiment, row.mode) == (experiment, mode)]
    [comparison] = comparisons(measured)
    value = gains_of_parts(comparison).get(part, {}).get(method, {}).get(size)
    return "" if value is None else short(value)


def short(value: float) -> str:
    """A number with three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def short_estimate(estimate: Estimate) -> str:
    return f"{estimate:.{2 if estimate.value < 10 else 1}f}"


def programs() -> str:
    """Speed-ups of training small networks on CLEVR's questions, and the numbers of calls."""
    run = speed_run("levels")

    def over_columns(size: int) -> str:
        if not run.has("programs", f"columns@{size}"):
            return ""
        speeds = [run.cell("programs", f"{way}@{size}").sentences_per_second for way in ("levels", "columns")]
        return short(speeds[0] / speeds[1])

    def calls(size: int) -> str:
        levels = run.cell("programs", f"levels@{size}").counts
        columns = "-"
        if run.has("programs", f"columns@{size}"):
            columns = f"{run.cell('programs', f'columns@{size}').counts['calls of modules']:.0f}"
        return f"{levels['calls of modules']:.0f}, {columns}, {levels['calls by agenda']:.0f}"

    return grid(
        "`levels` over `none`, batches of",
        {size: size for size in SIZES},
        {part: part for part in (FORWARD, BACKWARD, STEP)},
        lambda part, size: gain("levels", "programs", "train", part, "levels", size),
        ("`levels` over `columns`, whole step", *map(over_columns, SIZES)),
        ("calls by `levels`, `columns`, `agenda`", *map(calls, SIZES)),
    )


def programs_elsewhere() -> str:
    """Speed-ups on CLEVR's questions at other sizes and on another machine."""
    measured = (
        ("on a quiet machine", "levels/quiet", "programs", (64, 320, 640)),
        ("32 channels", "levels", "programs-32", (64,)),
        ("the paper's sizes, generated questions", "levels", "programs-paper", (64,)),
    )
    parts = FORWARD, BACKWARD, STEP
    return table(
        ("`levels` over `none`", "batch", *parts),
        (
            (what, size, *(gain(folder, experiment, "train", part, "levels", size) for part in parts))
            for what, folder, experiment, sizes in measured
            for size in sizes
        ),
    )


def sliced_programs() -> str:
    """Speed-ups when rows are gathered and scattered, and when they are sliced as in the authors' code."""
    parts = WHOLE_FORWARD, WHOLE_BACKWARD
    return table(
        ("over `none`", "batch", *parts),
        (
            (f"`{way}`", size, *(gain("levels", "programs", "train", part, way, size) for part in parts))
            for size in (640, 850)
            for way in ("levels", "sliced")
        ),
    )


def programs_at_paper_sizes() -> str:
    """Speed-ups over `none` on CLEVR's questions. The largest batches were measured on another machine."""
    experiment = "programs-paper"
    columns = {f"{size:,}": ("levels/paper-sizes", size) for size in (1, 8, 64, 256)}
    columns["1,024"] = "levels/batches-of-1024", 1024
    parts = {
        "calls of modules, forward (the paper: 14.1)": FORWARD,
        "calls of modules, backward": BACKWARD,
        "forward pass (5.5)": WHOLE_FORWARD,
        "backward pass (2)": WHOLE_BACKWARD,
    }

    def over_none(of: str, size: int) -> str:
        run = speed_run(of)
        base = next(cell for cell in (f"none@{size}", "none@64") if run.has(experiment, cell))
        return short_estimate(run.ratio(experiment, f"levels@{size}", base))

    cells = [speed_run(of).cell(experiment, f"levels@{size}") for of, size in columns.values()]
    return grid(
        "`levels` over `none`, batches of",
        columns,
        parts,
        lambda part, column: gain(column[0], experiment, "train", part, "levels", column[1]),
        ("whole step", *(over_none(*column) for column in columns.values())),
        ("MFU", *(f"{cell.mfu:.2f}" for cell in cells)),
        ("GiB of memory", *(f"{cell.memory.host / 2**30:.1f}" for cell in cells)),
    )


def printed_of_modules(experiment: str) -> list[str]:
    """The lines that the study of single modules printed for an experiment."""
    return printed(f"measure_modules.py configs/speed/levels.yaml {experiment} ")


def shares_of_products(lines: Sequence[str], module: str) -> dict[int, float]:
    """A module's share of the speed of large products, by the number of images or rows in a call."""
    pattern = rf"{module} +(\d+) .*; forward ([\d.]+) of large products"
    return {int(number): float(share) for number, share in matches(pattern, lines)}


def single_modules() -> str:
    """The possible gain from pooling, computed from the times of single modules."""
    pattern = r"levels +at +(\d+): .* ([\d.]+) times .* forward, ([\d.]+) backward, ([\d.]+) both"
    lines = []
    for title, experiment in (
        ("128 channels, as in the paper", "programs-paper"),
        ("16 channels", "programs"),
    ):
        of_modules = printed_of_modules(experiment)
        alone = f"{shares_of_products(of_modules, 'unary')[1]:.2f}"
        lines += [(title, alone, *numbers) for numbers in matches(pattern, of_modules)]
    alone = "a call with one image, share of large products"
    return table(("", alone, "batches of", "forward", "backward", "both"), lines)


def single_experts() -> str:
    """The possible gain for experts: a call's share of the speed of large products, and the bound from it."""
    lines = []
    for title, experiment in (("one expert", "experts-1"), ("100 experts in turn", "experts-100")):
        shares = shares_of_products(printed_of_modules(experiment), "expert")
        of_sizes = [shares[size] for size in TENFOLD.values()]
        lines += [
            (f"{title}, share of large products", *(f"{share:.3f}" for share in of_sizes)),
            (f"{title}, over single rows", *(f"{share / shares[1]:.1f}" for share in of_sizes)),
        ]
    return table(("rows in each call", *TENFOLD), lines)


def experts_grid() -> str:
    """Figure 3: the speed-up of batched calls of experts over single calls, here and in the paper."""
    return grid(
        "batches of; the paper's in parentheses",
        {"1 expert": (0, 1)}
        | {f"{10**power:,} experts": (power, 10**power) for power in range(1, len(TENFOLD))},
        dict(zip(reversed(TENFOLD), zip(reversed(TENFOLD.values()), PAPERS_GRID, strict=True), strict=True)),
        lambda line, column: (
            f"{gain('levels', f'experts-{column[1]}', 'infer', FORWARD, 'static', line[0])} "
            f"({line[1][column[0]]})"
        ),
    )


def experts() -> str:
    """Speed-ups over `none` in inference with 100 experts, one of which is chosen."""
    return table(
        ("100 experts, batches of", *TENFOLD),
        (
            (title, *(gain("levels", "experts-100", "infer", part, way, size) for size in TENFOLD.values()))
            for way in ("static", "grouped")
            for title, part in (
                (f"cells, `{way}`", FORWARD),
                ("with gate, sorting and gathering", WHOLE_FORWARD),
            )
        ),
    )


def largest_batches_of_experts() -> str:
    """Speed-ups in batches of 10,000: on a quiet machine, and with 10,000 experts."""
    measured = {
        "100 experts, on a quiet machine": ("levels/quiet", "experts-100"),
        "10,000 experts, which take 5 GB": ("levels", "experts-10000"),
    }
    return table(
        ("batches of 10,000", "`static`, cells", "in all", "`grouped`, cells", "in all"),
        (
            (
                title,
                *(
                    gain(*of, "infer", part, way, 10_000)
                    for way in ("static", "grouped")
                    for part in (FORWARD, WHOLE_FORWARD)
                ),
            )
            for title, of in measured.items()
        ),
    )


def simple_ways_of_experts() -> str:
    """The speeds of our methods over no batching, and over the way of `transformers`."""
    run = speed_run("levels/experts")
    modes = {"infer": "inference", "train": "training"}
    cells = [("static", 100), ("static", 1000), ("static", 10_000), ("grouped", 10_000)]
    kinds = {"one chosen": "experts-100", "one, noisy gate": "experts-100-noisy", "two": "experts-100-top-2"}

    def over(experiment: str, method: str, size: int, mode: str) -> list[str]:
        """The speed of a method over that of each simple way in the same turns."""
        others = (f"{other}@{size}" for other in SIMPLE_WAYS)
        return [short_estimate(run.ratio(experiment, f"{method}@{size}", cell, mode)) for cell in others]

    return table(
        ("100 experts", "", "batches of", *(f"over `{other}`" for other in SIMPLE_WAYS)),
        (
            (title, modes[mode], f"`{method}`, {size:,}", *over(experiment, method, size, mode))
            for title, experiment in kinds.items()
            for mode in modes
            for method, size in cells
            if run.has(experiment, f"{method}@{size}", mode)
        ),
    )


def chosen_experts() -> str:
    """Speed-ups by the number of chosen experts: with more per example, each call has more rows."""
    run = speed_run("levels/paper-sizes")
    return grid(
        "100 experts, `static` over `none`",
        {"100": (100, "infer"), "1,000": (1000, "infer"), "10,000": (10_000, "infer")}
        | {"10,000, training": (10_000, "train")},
        {"one chosen": "experts-100", "two": "experts-100-top-2", "four": "experts-100-top-4"},
        lambda name, column: short_estimate(
            run.ratio(name, f"static@{column[0]}", f"none@{column[0]}", column[1])
        ),
    )


def learned_programs() -> str:
    """Accuracy of the learned programs by kind of question."""
    kept = sorted(rows("speed/levels/learned-programs.jsonl"), key=lambda row: (row["epoch"], row["method"]))
    header = [f"`{row['method']}`, {row['epoch']} epochs" for row in kept]
    lines = (
        (kind.replace("_", " "), f"{guessed:.1f}", *(f"{row['accuracy'][kind]:.1f}" for row in kept))
        for kind, guessed in kept[0]["majority"].items()
    )
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
