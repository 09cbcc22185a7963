"""Tables of GPU measurements, of predictions from counts for GPUs and a CPU, and of CUDA graphs' needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from figures.kept import Row, grid, grouped, printed, processor, rows, speed_run, table
from figures.speed import speeds_by_size

What = Literal["training", "transformer", "this-cpu", "shapes", "making"]
SIZES = 64, 256
METHODS = {
    "replay": "replay",
    "replay in CUDA graphs": "replay-graph",
    "by step, as the paper's authors": "step-naive",
}
PREDICTED_FOR = "H100 SXM", "float32"
"""The device and the precision for which all tables are shown."""
ROUNDING = "accuracy/rounding.jsonl"
H100 = "gpu-h100"
PAPER = "ding-koehn-2019"


def rows_of(what: What) -> list[Row]:
    return [row for row in rows("speed/predicted-gpu/rows.jsonl") if row["what"] == what]


def predictions() -> dict[tuple[str, int], Row]:
    """Training steps on an H100 in float32, by method and batch size."""
    return {
        (row["method"], row["batch_size"]): row
        for row in rows_of("training")
        if (row["device"], row["precision"]) == PREDICTED_FOR
    }


def measured() -> str:
    """Measured training steps on an H100."""
    return speeds_by_size(
        H100,
        PAPER,
        (1, 8, 64, 256, 1024),
        {
            "sentence by sentence": {"none": (1,)},
            "by step, as the paper's authors": {"step-naive": (64,)},
            "by step, our implementation": {"step": (256,)},
            "by replay": {"replay": (8, 64, 256, 1024)},
            "by replay in CUDA graphs": {"replay-graph": (64, 256, 1024)},
        },
    )


def measured_over_predicted() -> str:
    """The measured speeds over the predicted ones for this GPU."""
    run, predicted = speed_run(H100), predictions()

    def share(method: str, size: int) -> str:
        if not run.has(PAPER, f"{method}@{size}"):
            return ""
        speed = run.cell(PAPER, f"{method}@{size}").sentences_per_second
        return f"{speed / predicted[method, size]['sentences_per_second']:.2f}"

    return grid("measured / predicted", {f"batches of {size}": size for size in SIZES}, METHODS, share)


def training_with_graphs() -> str:
    """What `stack-parser train` printed for the last of three epochs."""
    runs = {"without": "false", "`training.cuda_graphs: true`": "true"}
    lines = {title: printed(f"training-h100-graphs-{name}") for title, name in runs.items()}
    speeds = {
        title: re.findall(r"([\d,]+) sentences/s", "\n".join(of_run))[-1] for title, of_run in lines.items()
    }
    return table(("batches of 256, third epoch", "sentences/s"), speeds.items())


def rounding() -> str:
    """Dev scores of trainings on a CPU that differ in the rounding of their initial weights."""
    scores = {
        (row["seed"], row["draw"]): f"{row['dev_las']:.2f}, {row['dev_loss']:.4f}"
        for row in rows(ROUNDING)
        if not row["cuda_graphs"]
    }
    [on] = {processor(row["machine"]) for row in rows(ROUNDING)}
    return grid(
        f"dev LAS, dev loss ({on})",
        {"initial weights as they are": 0, "with noise": 1, "with other noise": 2},
        {f"seed {seed}": seed for seed, _ in scores},
        lambda seed, draw: scores[seed, draw],
    )


def predicted() -> str:
    """Predicted training steps on an H100 in float32, also if the thread that prepares batches is free."""
    rows, speed = predictions(), "sentences_per_second"

    def cell(method: str, column: tuple[int, str]) -> str:
        value = rows[method, column[0]][column[1]]
        return value if column[1] == "binds" else f"{float(f'{value:.3g}'):,.0f}"

    columns = {
        "batches of 64": (64, speed),
        "256": (256, speed),
        "64, prepared ahead": (64, f"{speed}_side_by_side"),
        256: (256, f"{speed}_side_by_side"),
        "binds at 64": (64, "binds"),
        "at 256": (256, "binds"),
    }
    return grid("predicted, sentences/s", columns, METHODS, cell)


def this_cpu() -> str:
    """Predicted over measured time on a CPU: the fastest of all rounds, since the machine is shared."""
    ratios = {}
    for key, rounds in grouped(
        ((row["method"], row["batch_size"]), row) for row in rows_of("this-cpu")
    ).items():
        fastest = min(rounds, key=lambda row: row["measured"])
        ratios[key] = f"{fastest['predicted'] / fastest['measured']:.2f}"
    return grid(
        "predicted / measured time",
        {f"batches of {size}": size for _, size in ratios},
        {f"`{method}`": method for method, _ in ratios},
        lambda method, size: ratios[method, size],
    )


def shapes() -> str:
    """What training by CUDA graphs needs."""
    by_size = {row["batch_size"]: row for row in rows_of("shapes")}
    return table(
        ("batch", "graphs", "batches that they serve", "more rows for the LSTMs"),
        (
            (
                size,
                by_size[size]["shapes"],
                *(f"{100 * by_size[size][what]:.1f} %" for what in ("share", "padding")),
            )
            for size in SIZES
        ),
    )


def making() -> str:
    """What the host does for a training batch."""
    by_size = {row["batch_size"]: row for row in rows_of("making")}
    [on] = {processor(row["machine"]) for row in by_size.values()}

    def cell(maker: str, row: Row) -> str:
        host = row["host"][maker]
        return f"{host['microseconds_per_sentence']:.2f} µs, {host['bytes'] / 1000:,.1f} kB"

    makers = {"all, as before": "host", "what is left if the GPU makes the batch": "device"}
    return grid(f"the host's work for a sentence, and the upload ({on})", by_size, makers, cell)


def transformer() -> str:
    """Words per second in training with all of XLM-R (base), predicted."""
    speeds = {(row["precision"], row["device"]): row["words_per_second"] for row in rows_of("transformer")}
    return grid(
        "predicted, words/s",
        {device: device for device in ("T4", "A100 SXM 80 GB", "H100 SXM")},
        {precision: precision for precision, _ in speeds},
        lambda *cell: f"{speeds[cell]:,.0f}" if cell in speeds else "",
    )


def transformer_memory() -> str:
    [memory] = {tuple(row["memory_gib"].values()) for row in rows_of("transformer")}
    header = (
        "GiB",
        "weights, gradients and the optimizer's state",
        "kept for the backward pass of 1,000 words",
    )
    return table(header, [("predicted", *(f"{number:.1f}" for number in memory))])


FIGURES: dict[str, Callable[[], str]] = {
    "making": making,
    "measured-gpu": measured,
    "measured-gpu-over-predicted": measured_over_predicted,
    "predicted-gpu": predicted,
    "predicted-this-cpu": this_cpu,
    "predicted-transformer": transformer,
    "predicted-transformer-memory": transformer_memory,
    "rounding": rounding,
    "shapes": shapes,
    "training-with-graphs": training_with_graphs,
}
