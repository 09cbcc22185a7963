"""Learning of several seeds, and how it depends on the number of batches in flight."""

from __future__ import annotations

from parser.speed.convergence import convergence_parts
from parser.speed.discovery import find
from parser.speed.document import Picture, Table
from parser.speed.learning import learning_cells
from parser.speed.learning_report import learning_parts
from parser.speed.settings import SpeedConfig


def row(experiment: str, method: str, seed: int, scores: list[float], **changed) -> dict:
    of_machine = {
        "device": "cpu",
        "threads": 2,
        "precision": "float32",
        "mode": "train",
        "batch_size": 4,
        "settings": {},
    }
    own = {"experiment": experiment, "plugin": "mnist_mlp", "method": method, "seed": seed, "target": 0.9}
    return {**of_machine, **own, "status": "ok", "scores": scores, "seconds": [2.0] * len(scores), **changed}


ROWS = [
    row("often", "none", 1, [0.9, 0.9]),
    row("often", "active-1", 1, [0.5, 0.95]),
    row("often", "active-1", 2, [0.91, 0.94]),
    row("often", "active-4", 1, [0.5, 0.9], seconds=[1.0, 1.0]),
    row("often", "active-4", 2, [0.5, 0.6], seconds=[1.0, 1.0]),
    row("seldom", "active-1", 1, [0.9], status="error: of some kind"),
    row("other", "active-1", 1, [0.9]),
]


def only_table(parts) -> Table:
    (table,) = (part for part in parts if isinstance(part, Table))
    return table


def test_figures_are_the_mean_and_the_range_over_seeds():
    table = only_table(learning_parts(ROWS[:5]))
    none, one, four = (list(cells)[:7] for cells in table.rows)
    assert none == ["none", "4", "1", "2.0", "1.00", "2.00", "0.9000"]
    assert one == [
        "active-1",
        "4",
        "1.5 [1.0, 2.0]",
        "3.0 [2.0, 4.0]",
        "1.50",
        "2.00 [2.00, 2.00]",
        "0.9450 [0.9400, 0.9500]",
    ]
    assert four[2] == "2.0, 1 of 2 runs"


def test_convergence_is_told_by_batches_in_flight():
    parts = convergence_parts(ROWS)
    table = only_table(parts)
    assert list(table.columns) == [
        "experiment",
        "epochs, 1 in flight",
        "epochs, 4 in flight",
        "seconds for each epoch, 1 in flight",
        "seconds for each epoch, 4 in flight",
    ]
    assert table.rows == [
        ["often", "1.5 [1.0, 2.0]", "2.0, 1 of 2 runs", "2.00 [2.00, 2.00]", "1.00 [1.00, 1.00]"]
    ]
    assert [part.name for part in parts if isinstance(part, Picture)] == ["mnist_mlp-convergence"]


def test_every_seed_is_a_cell():
    learning = {"digits": {"plugin": "mnist_mlp", "methods": ["none"], "target": 1, "seeds": 3}}
    experiments = {"digits": {"plugin": "mnist_mlp", "methods": ["none"]}}
    config = SpeedConfig.model_validate({"experiments": experiments, "learning": learning, "seed": 5})
    assert [cell.seed for cell in learning_cells(config, find)] == [5, 6, 7]
