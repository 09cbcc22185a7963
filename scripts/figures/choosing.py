"""Tables of the fastest method for each kind of network, and of alternatives in PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from figures.kept import SpeedRun, plain_speed, speed_run, table
from figures.libraries import over, speed, speeds_of
from parser.speed.measuring.rows import SpeedRow
from parser.speed.reporting.speed_ups import bracketed, ratio

RUN = "alternatives"
EXPERIMENTS = {
    "tagger": "tagger",
    "tagger-similar-lengths": "similar lengths",
    "trees": "Tree-LSTM",
    "tagger-generated": "tagger, generated",
    "trees-generated": "Tree-LSTM, generated",
}
METHODS = {
    "none": "one by one",
    "agenda": "agenda",
    "levels": "by levels",
    "manual": "by hand",
    "library": "PyTorch's LSTM, packed",
    "padded": "PyTorch's LSTM, padded",
    "nested": "nested tensors",
    "vmap": "`torch.func.vmap`, padded",
    "compiled": "by hand, the cell by `torch.compile`",
}
BESIDE_JAX = "agenda", "levels", "padded"


class Case(NamedTuple):
    """A kind of network, and the methods that were measured for it."""

    what: str
    run: str
    experiment: str
    methods: tuple[str, ...]
    batch_size: int = 64


SIMPLE = "manual", "library", "padded", "none"
CASES = (
    Case("sequences in batches of random lengths", RUN, "tagger", tuple(METHODS)),
    Case("sequences in batches of similar lengths", RUN, "tagger-similar-lengths", tuple(METHODS)),
    Case("trees", RUN, "trees", tuple(METHODS)),
    Case("decisions that depend on scores", "on-the-fly", "parser", ("agenda", "depth", *SIMPLE)),
    Case(
        "programs of modules", "levels/paper-sizes", "programs-paper", ("levels", "columns", "agenda", "none")
    ),
    Case(
        "stacks, with known operations",
        "stack-lstm/in-turns",
        "ding-koehn-2019",
        ("replay", "step", "step-naive"),
    ),
    Case("one long stream", "recurrence", "elman", ("components", "library", "none"), 1),
    Case(
        "experts", "levels/experts", "experts-100", ("static", "grouped", "loop", "library", "none"), 10_000
    ),
    Case("graphs", "messages", "molecules", ("none", "active-4", "active-16", "active-1"), 20),
)


def choosing() -> str:
    """The fastest method for each kind of network, and the speeds of other methods as shares of its speed."""
    return table(("", "batches of", "fastest", "the others, as shares of its speed"), map(_case, CASES))


def _case(case: Case) -> tuple[str, ...]:
    run = speed_run(case.run)
    wanted = [f"{method}@{case.batch_size}" for method in case.methods]
    cells = [run.cell(case.experiment, cell) for cell in wanted if run.has(case.experiment, cell)]
    fastest, *others = sorted(cells, key=lambda row: -ratio(row, cells[0]).value)
    shares = ", ".join(f"`{row.method}` {_share(row, fastest)}" for row in others)
    return case.what, f"{case.batch_size:,}", f"`{fastest.method}`", shares


def _share(row: SpeedRow, of: SpeedRow) -> str:
    return bracketed(f"{ratio(row, of).value:.2f}", [row, of])


def alternatives() -> str:
    """Speeds of alternatives, in brackets relative to the agenda, and the time until the first results."""
    run = speed_run(RUN)
    lines = [
        (title, *(_beside_agenda(run, experiment, f"{method}@64") for experiment in EXPERIMENTS))
        for method, title in METHODS.items()
    ]
    waits = [_waits(run, experiment) for experiment in EXPERIMENTS]
    return table(
        ("examples/s, and as shares of the agenda's", *EXPERIMENTS.values()),
        [*(line for line in lines if any(line[1:])), ("seconds to compile and check", *waits)],
    )


def _beside_agenda(run: SpeedRun, experiment: str, cell: str) -> str:
    if not run.has(experiment, cell):
        return ""
    own, agenda = run.cell(experiment, cell), run.cell(experiment, "agenda@64")
    shown = plain_speed(own.sentences_per_second)
    return shown if own is agenda else f"{shown}, {ratio(own, agenda)}"


def _waits(run: SpeedRun, experiment: str) -> str:
    return f"{run.cell(experiment, 'compiled@64').first_seconds:.0f}"


def jax() -> str:
    """Speeds of JAX, and their ratios to our speeds in the same turns."""
    tasks = {title: speeds_of(task, f"speed/{RUN}/external.jsonl") for task, title in EXPERIMENTS.items()}
    return table(
        ("", "JAX, examples/s", *(f"over `{method}`" for method in BESIDE_JAX)),
        (
            (title, speed(own["JAX"]), *(over(own["JAX"], own.get(method)) for method in BESIDE_JAX))
            for title, own in tasks.items()
            if "JAX" in own
        ),
    )


FIGURES: dict[str, Callable[[], str]] = {
    "alternatives": alternatives,
    "alternatives-jax": jax,
    "choosing": choosing,
}
