"""Asynchronous messages (Gaunt et al. 2017): speeds, learning, and late gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from figures.kept import MEASUREMENTS, grid, grouped, ratios, rows, speed_run, table
from parser.speed.measuring.learning import Curve, learned
from parser.speed.measuring.run import read_run_config, rows_of
from parser.speed.reporting.asynchrony import frequency_sections
from parser.speed.reporting.learning import epochs_to_target
from parser.speed.tasks.graphs.graph_network_plugin import CHEMICAL_ACCURACIES

RUN = "messages"
LEARNING_RUN = "messages/learning"
"""The learning run. It also has the speeds of its cells, and of messages for single nodes and edges."""
ACTIVE = {f"{active} in flight": f"active-{active}" for active in (1, 4, 16)}
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
    "digits": SPEEDS["digits, batches of 100"],
    "deductions, 20": SPEEDS["deductions, 20"],
    "deductions, 100": SPEEDS["deductions, 100"],
    "lists": SPEEDS["lists, 100; one cell"],
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


def speed(experiment: str, cell: str) -> str:
    """Examples per second in training; empty if it was not measured."""
    run = speed_run(RUN)
    return f"{run.cell(experiment, cell).sentences_per_second:,.0f}" if run.has(experiment, cell) else ""


def gain(experiment: str, size: int, other: str) -> str:
    """The median ratio over the turns of 16 batches in flight over another cell."""
    return str(speed_run(RUN).ratio(experiment, f"active-16@{size}", other)) if other else ""


def speeds() -> str:
    """Examples per second in training by batches in flight, and ratios."""
    return table(
        ("examples/s", "plain", *ACTIVE, "16 over 1", "16 over plain"),
        (
            (
                title,
                speed(name, base) if base else "",
                *(speed(name, f"{method}@{size}") for method in ACTIVE.values()),
                gain(name, size, f"active-1@{size}"),
                gain(name, size, base),
            )
            for title, (name, size, base) in SPEEDS.items()
        ),
    )


def processes() -> str:
    """Speeds of threads next to those of processes."""

    def texts(name: str, size: int, base: str, ending: str = "") -> tuple[str, ...]:
        name += ending
        one, sixteen = (f"active-{active}@{size}" for active in (1, 16))
        return speed(name, one), speed(name, sixteen), gain(name, size, one), gain(name, size, base)

    return table(
        ("threads / processes", "1 in flight", "16", "16 over 1", "16 over plain"),
        (
            (title, *map(" / ".join, zip(texts(*line), texts(*line, "-processes"), strict=True)))
            for title, line in BY_PROCESSES.items()
        ),
    )


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
    return ratios(speed_run(RUN), lines, digits=1, marked=True)


def sizes_of_messages() -> str:
    """The speed with one message for all nodes and edges over that with one message for each."""
    lines = [
        (what if active == 1 else "", f"{what}-edges", f"active-{active}@20", f"edges-active-{active}@20")
        for what in ("deductions", "molecules")
        for active in (1, 16)
    ]
    return ratios(speed_run(LEARNING_RUN), lines, digits=1, marked=True)


def asynchrony() -> str:
    """Speed, and epochs to the target, by the two parameters of asynchrony."""
    folder = MEASUREMENTS / "speed" / LEARNING_RUN
    return "\n\n".join(
        f"{section.title}:\n\n{table(one.columns, one.rows)}"
        for section in frequency_sections(rows_of(folder, read_run_config(folder)))
        for one in section.tables
    )


def learning() -> str:
    """Epochs to the target, the best score, and the number of updates by which gradients were late."""
    folder = MEASUREMENTS / "speed" / LEARNING_RUN
    curves = grouped(
        ((curve.experiment, curve.method), curve)
        for curve in learned(read_run_config(folder), folder)
        if isinstance(curve, Curve)
    )

    def texts(runs: Sequence[Curve]) -> str:
        if not runs:
            return ""
        best = 100 * mean(max(curve.scores) for curve in runs)
        epochs = epochs_to_target(runs, 1 if len(runs) > 1 else 0).replace(".0,", ",").replace(".0]", "]")
        parts = [epochs, f"{best:.1f}"]
        for note, text in (("updates late", "late"), (CHEMICAL_ACCURACIES, "error")):
            if noted := [curve.notes[note] for curve in runs if note in curve.notes]:
                parts.append(f"{text} {mean(noted):.1f}")
        return "; ".join(parts)

    return grid(
        "epochs; best score, %",
        {"plain": "", **ACTIVE},
        LEARNING,
        lambda line, method: texts(curves.get((line[0], method or line[1]), [])),
    )


def late_gradients() -> str:
    """Accuracy on held-out digits after the last epoch, by seed."""
    accuracies = grouped(
        ((row["late"], row["settings"]["learning_rate"]), 100 * row["scores"][-1])
        for row in rows("speed/messages/late-gradients.jsonl")
    )
    lines = (
        (f"{late} updates", f"{rate:g}", ", ".join(f"{score:.2f}" for score in sorted(scores)))
        for (late, rate), scores in sorted(accuracies.items(), key=lambda item: (item[0][0], -item[0][1]))
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
