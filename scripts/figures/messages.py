"""Asynchronous messages (Gaunt et al. 2017): speeds, learning, and late gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from figures.kept import MEASUREMENTS, SpeedRun, rows, speed_run, table
from parser.speed.measuring.learning import Curve, learned
from parser.speed.measuring.run import read_run_config, rows_of
from parser.speed.reporting import update_frequency
from parser.speed.reporting.learning import epochs_to_target
from parser.speed.reporting.speed_ups import bracketed
from parser.speed.tasks.graphs.graph_network_plugin import CHEMICAL_ACCURACIES

LEARNING_RUN = "messages/learning"
"""The learning run. It also has the speeds of its cells, and of messages for single nodes and edges."""
ACTIVE = 1, 4, 16
SPEEDS = {
    "digits, batches of 100": ("mnist", 100, "none@100"),
    "update after 4 gradients": ("mnist-update-after-4", 100, ""),
    "update after 16": ("mnist-update-after-16", 100, ""),
    "each layer in two tiles": ("mnist-tiles", 100, "none@100"),
    "molecules, 20": ("molecules", 20, "none@20"),
    "deductions, 20": ("deductions", 20, "none@20"),
    "deductions, 100": ("deductions", 100, "none@100"),
    "lists, 100; one cell": ("lists", 100, "none@100"),
    "lists, two replicas": ("lists-2-replicas", 100, ""),
    "lists, four replicas": ("lists-4-replicas", 100, ""),
    "trees, one by one": ("trees", 64, "levels@1"),
    "the same with GloVe vectors": ("trees-glove", 64, "levels@1"),
}
"""The experiment of a line, its batch size, and the cell of plain training in the same turns."""
BY_PROCESSES = {
    "digits": ("mnist", 100, "none@100"),
    "deductions, 20": ("deductions", 20, "none@20"),
    "deductions, 100": ("deductions", 100, "none@100"),
    "lists": ("lists", 100, "none@100"),
}
LEARNING = {
    "digits (8,000 images): 93 %, 12 epochs": ("mnist", "none"),
    "updates after 4 gradients": ("mnist-update-after-4", ""),
    "updates after 16": ("mnist-update-after-16", ""),
    "backward through present weights": ("mnist-present-weights", ""),
    "lists (50,000): 85 %, 12 epochs": ("lists", "none"),
    "lists, backward through present weights": ("lists-present-weights", ""),
    "deductions (1,000 graphs): 100 %, 3 epochs": ("deductions", "none"),
    "molecules (13,291): half of the variance, 8 epochs": ("molecules", "none"),
    "trees (8,544), GloVe: 79 % of nodes, 4 epochs; plain by levels": ("trees-glove", "levels"),
}
"""The experiment of a line, and the method of plain training."""


def speeds() -> str:
    """Examples per second in training by batches in flight, and the median ratio over the turns."""
    run = speed_run("messages")
    return table(
        (
            "examples/s",
            "plain",
            *(f"{active} in flight" for active in ACTIVE),
            "16 over 1",
            "16 over plain",
        ),
        (
            (
                title,
                _speed(run, name, plain) if plain else "",
                *(_speed(run, name, f"active-{active}@{size}") for active in ACTIVE),
                str(run.ratio(name, f"active-16@{size}", f"active-1@{size}")),
                str(run.ratio(name, f"active-16@{size}", plain)) if plain else "",
            )
            for title, (name, size, plain) in SPEEDS.items()
        ),
    )


def _speed(run: SpeedRun, experiment: str, cell: str) -> str:
    return f"{run.cell(experiment, cell).sentences_per_second:,.0f}" if run.has(experiment, cell) else ""


def processes() -> str:
    """Speeds of threads next to those of processes."""
    header = ("threads / processes", "1 in flight", "16", "16 over 1", "16 over plain")
    return table(header, ((title, *_both(*line)) for title, line in BY_PROCESSES.items()))


def _both(name: str, size: int, plain: str) -> list[str]:
    run, (one, sixteen) = speed_run("messages"), (f"active-{active}@{size}" for active in (1, 16))
    each = name, f"{name}-processes"
    return [
        *(" / ".join(_speed(run, own, cell) for own in each) for cell in (one, sixteen)),
        " / ".join(str(run.ratio(own, sixteen, one)) for own in each),
        " / ".join(str(run.ratio(own, sixteen, plain)) for own in each),
    ]


def sparse() -> str:
    """The speed of sparse propagation over propagation by a dense matrix, on equal graphs in equal turns."""
    lines = [
        (f"{what}, batches of {size}", "deductions", f"{first}@{size}", f"{second}@{size}")
        for what, first, second in (
            ("sparse, by messages, over dense, without [paper: 9]", "active-16", "dense"),
            ("both without messages", "none", "dense"),
            ("both by messages", "active-16", "dense-active-16"),
        )
        for size in (20, 100)
    ]
    return _ratios(speed_run("messages"), lines)


def sizes_of_messages() -> str:
    """The speed with one message for all nodes and edges over that with one message for each."""
    return _ratios(
        speed_run(LEARNING_RUN),
        [
            (what if active == 1 else "", name, f"active-{active}@20", f"edges-active-{active}@20")
            for what, name in (("deductions", "deductions-edges"), ("molecules", "molecules-edges"))
            for active in (1, 16)
        ],
    )


def _ratios(run: SpeedRun, lines: Sequence[tuple[str, str, str, str]]) -> str:
    """A table of ratios. lines: the title, the experiment, and METHOD@BATCH_SIZE of both cells."""
    return table(
        ("", "speed of", "over that of", "ratio"),
        (
            (
                what,
                f"`{one}`",
                f"`{other}`",
                bracketed(f"{run.ratio(name, one, other):.1f}", [run.cell(name, one), run.cell(name, other)]),
            )
            for what, name, one, other in lines
        ),
    )


def asynchrony() -> str:
    """Speed, and epochs to the target, by the two parameters of asynchrony."""
    folder = MEASUREMENTS / "speed" / LEARNING_RUN
    found = update_frequency.sections(rows_of(folder, read_run_config(folder)))
    return "\n\n".join(
        f"{section.title}:\n\n{table(grid.columns, grid.rows)}"
        for section in found
        for grid in section.tables
    )


def learning() -> str:
    """Epochs to the target, the best score, and the number of updates by which gradients were late."""
    folder = MEASUREMENTS / "speed" / LEARNING_RUN
    found: dict[tuple[str, str], list[Curve]] = {}
    for curve in learned(read_run_config(folder), folder):
        if isinstance(curve, Curve):
            found.setdefault((curve.experiment, curve.method), []).append(curve)
    return table(
        ("epochs; best score, %", "plain", *(f"{active} in flight" for active in ACTIVE)),
        (
            (
                title,
                _learned(found.get((name, plain), [])),
                *(_learned(found.get((name, f"active-{active}"), [])) for active in ACTIVE),
            )
            for title, (name, plain) in LEARNING.items()
        ),
    )


def _learned(runs: Sequence[Curve]) -> str:
    if not runs:
        return ""
    best = 100 * mean(max(curve.scores) for curve in runs)
    epochs = epochs_to_target(runs, 1 if len(runs) > 1 else 0).replace(".0,", ",").replace(".0]", "]")
    noted = {
        text: [curve.notes[note] for curve in runs if note in curve.notes]
        for note, text in (("updates late", "late {:.1f}"), (CHEMICAL_ACCURACIES, "error {:.1f}"))
    }
    return "; ".join([epochs, f"{best:.1f}", *(text.format(mean(own)) for text, own in noted.items() if own)])


def late_gradients() -> str:
    """Accuracy on held-out digits after the last epoch, by seed."""
    found: dict[tuple[int, float], list[float]] = {}
    for row in rows("speed/messages/late-gradients.jsonl"):
        key = row["late"], row["settings"]["learning_rate"]
        found.setdefault(key, []).append(100 * row["scores"][-1])
    lines = (
        (f"{late} updates", f"{rate:g}", ", ".join(f"{score:.2f}" for score in sorted(scores)))
        for (late, rate), scores in sorted(found.items(), key=lambda item: (item[0][0], -item[0][1]))
    )
    return table(("late by", "learning rate", "accuracy, %"), lines)


FIGURES: dict[str, Callable[[], str]] = {
    "late-gradients": late_gradients,
    "messages": speeds,
    "messages-asynchrony": asynchrony,
    "messages-learning": learning,
    "messages-processes": processes,
    "messages-sizes": sizes_of_messages,
    "messages-sparse": sparse,
}
