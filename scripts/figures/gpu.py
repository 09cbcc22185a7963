"""Tables of GPU measurements, of predictions from counts for GPUs and a CPU, and of CUDA graphs' needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from prediction.model import GPUS

from figures.kept import Row, plain_speed, printed, processor, rows, speed_run, table
from parser.speed.measuring.statistics import Estimate, exactly
from parser.speed.reporting.document import Heading, Picture, Table, write_document
from parser.speed.reporting.plot_style import PLAIN, draw_panels

FOLDER = "speed/predicted-gpu"
What = Literal["training", "transformer", "this-cpu", "shapes", "making"]
SIZES = 64, 256
METHODS = {
    "replay": "replay",
    "replay-graph": "replay in CUDA graphs",
    "step-naive": "by step, as the paper's authors",
}
TITLE = "Predicted, not measured"
INTRODUCTION = (
    "Training steps of Ding & Koehn's network on UD English EWT. `launching` and `preparing` are what the "
    "host does, in milliseconds of a step, `on the device` is what the kernels need and what binds most of "
    "them. Sentences per second: with both parts of the host's work one after the other, and side by side "
    "(`prepared ahead`). Of other GPUs and precisions only replay in the largest batches is shown."
)
COLUMNS = (
    *("GPU, precision", "batch", "method", "operators", "launching", "preparing", "on the device"),
    *("sentences/s", "prepared ahead", "binds"),
)
SHOWN = GPUS[0].name, "float32"
"""The device and the precision for which all tables are shown."""


ROUNDING = "accuracy/rounding.jsonl"
H100 = "gpu-h100"
PAPER = "ding-koehn-2019"
MEASURED: dict[str, dict[str, tuple[int, ...]]] = {
    "sentence by sentence": {"none": (1,)},
    "by step, as the paper's authors": {"step-naive": (64,)},
    "by step, our implementation": {"step": (256,)},
    "by replay": {"replay": (8, 64, 256, 1024)},
    "by replay in CUDA graphs": {"replay-graph": (64, 256, 1024)},
}
"""Methods with their batch sizes, by the names shown in the table."""


def rows_of(what: What) -> list[Row]:
    return [row for row in rows(f"{FOLDER}/rows.jsonl") if row["what"] == what]


def measured() -> str:
    """Measured training steps on an H100."""
    sizes, run = (1, 8, 64, 256, 1024), speed_run(H100)

    def speed(method: str, size: int) -> str:
        return plain_speed(run.cell(PAPER, f"{method}@{size}").sentences_per_second)

    return table(
        ("training, sentences/s", "batch 1", *sizes[1:]),
        (
            (title, *(speed(method, size) if size in there else "" for size in sizes))
            for title, methods in MEASURED.items()
            for method, there in methods.items()
        ),
    )


def measured_over_predicted() -> str:
    """The measured speeds over the predicted ones for this GPU."""
    run = speed_run(H100)
    found = {(row["method"], row["batch_size"]): row for row in rows_of("training") if _is_first(row)}

    def share(method: str, size: int) -> str:
        cell = f"{method}@{size}"
        if not run.has(PAPER, cell):
            return ""
        return (
            f"{run.cell(PAPER, cell).sentences_per_second / found[method, size]['sentences_per_second']:.2f}"
        )

    return table(
        ("measured / predicted", *(f"batches of {size}" for size in SIZES)),
        ((title, *(share(method, size) for size in SIZES)) for method, title in METHODS.items()),
    )


def training_with_graphs() -> str:
    """What `stack-parser train` printed for the last of three epochs."""
    runs = {
        "without": "training-h100-graphs-false",
        "`training.cuda_graphs: true`": "training-h100-graphs-true",
    }
    lines = {title: "\n".join(printed("speed/printed.jsonl", name)) for title, name in runs.items()}
    speeds = {title: re.findall(r"([\d,]+) sentences/s", text)[-1] for title, text in lines.items()}
    return table(("batches of 256, third epoch", "sentences/s"), speeds.items())


def rounding() -> str:
    """Dev scores of trainings on a CPU that differ in the rounding of their initial weights."""
    found = {
        (row["seed"], row["draw"]): f"{row['dev_las']:.2f}, {row['dev_loss']:.4f}"
        for row in rows(ROUNDING)
        if not row["cuda_graphs"]
    }
    [on] = {processor(row["machine"]["cpu"], row["machine"]["vectors"]) for row in rows(ROUNDING)}
    seeds, draws = ({key[place]: None for key in found} for place in (0, 1))
    titles = {0: "initial weights as they are", 1: "with noise", 2: "with other noise"}
    return table(
        (f"dev LAS, dev loss ({on})", *(titles[draw] for draw in draws)),
        ((f"seed {seed}", *(found[seed, draw] for draw in draws)) for seed in seeds),
    )


def predicted() -> str:
    """Predicted training steps on an H100 in float32, also if the thread that prepares batches is free."""
    found = {(row["method"], row["batch_size"]): row for row in rows_of("training") if _is_first(row)}
    ahead = "sentences_per_second_side_by_side"

    def speed(row: Row, what: str = "sentences_per_second") -> str:
        return f"{float(f'{row[what]:.3g}'):,.0f}"

    return table(
        (
            "predicted, sentences/s",
            "batches of 64",
            "256",
            "64, prepared ahead",
            "256",
            "binds at 64",
            "at 256",
        ),
        (
            (
                title,
                *(speed(found[method, size]) for size in SIZES),
                *(speed(found[method, size], ahead) for size in SIZES),
                *(found[method, size]["binds"] for size in SIZES),
            )
            for method, title in METHODS.items()
        ),
    )


def this_cpu() -> str:
    """Predicted over measured time on a CPU: the fastest of all rounds, since the machine is shared."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows_of("this-cpu"):
        found.setdefault((row["method"], row["batch_size"]), []).append(row)
    ratios = {}
    for key, rounds in found.items():
        fastest = min(rounds, key=lambda row: row["measured"])
        ratios[key] = f"{fastest['predicted'] / fastest['measured']:.2f}"
    methods, sizes = (list(dict.fromkeys(part)) for part in zip(*ratios, strict=True))
    return table(
        ("predicted / measured time", *(f"batches of {size}" for size in sizes)),
        ((f"`{method}`", *(ratios[method, size] for size in sizes)) for method in methods),
    )


def shapes() -> str:
    """What training by CUDA graphs needs."""
    found = {row["batch_size"]: row for row in rows_of("shapes")}

    def share(size: int, what: str) -> str:
        return f"{found[size][what]:.1%}".replace("%", " %")

    return table(
        ("batch", "graphs", "batches that they serve", "more rows for the LSTMs"),
        ((size, found[size]["shapes"], share(size, "share"), share(size, "padding")) for size in SIZES),
    )


def making() -> str:
    """What the host does for a training batch."""
    found = rows_of("making")
    [on] = {processor(row["machine"]["cpu"], row["machine"]["vectors"]) for row in found}
    makers = {"host": "all, as before", "device": "what is left if the GPU makes the batch"}

    def cell(row: Row, maker: str) -> str:
        figures = row["host"][maker]
        return f"{figures['microseconds_per_sentence']:.2f} µs, {figures['bytes'] / 1000:,.1f} kB"

    return table(
        (f"the host's work for a sentence, and the upload ({on})", *(row["batch_size"] for row in found)),
        ((title, *(cell(row, maker) for row in found)) for maker, title in makers.items()),
    )


def transformer() -> str:
    """Words per second in training with all of XLM-R (base), predicted."""
    found = {(row["device"], row["precision"]): row for row in rows_of("transformer")}
    devices = "T4", "A100 SXM 80 GB", "H100 SXM"

    def speed(device: str, precision: str) -> str:
        row = found.get((device, precision))
        return f"{row['words_per_second']:,.0f}" if row else ""

    precisions = list(dict.fromkeys(precision for _, precision in found))
    return table(
        ("predicted, words/s", *devices),
        ((precision, *(speed(device, precision) for device in devices)) for precision in precisions),
    )


def transformer_memory() -> str:
    [memory] = {tuple(row["memory_gib"].values()) for row in rows_of("transformer")}
    header = (
        "GiB",
        "weights, gradients and the optimizer's state",
        "kept for the backward pass of 1,000 words",
    )
    return table(header, [("predicted", *(f"{number:.1f}" for number in memory))])


def draw_report(folder: Path) -> None:
    """Write report.md, plots/ and report.html from the output of scripts/studies/gpu/predict_gpu.py."""
    found = rows_of("training")
    largest = max(row["batch_size"] for row in found)
    cells = Table(COLUMNS, [_cells(row) for row in found if _is_shown(row, largest)])
    plot = Picture("prediction", _plot([row for row in found if _is_first(row)]))
    write_document(TITLE, [Heading(1, TITLE), INTRODUCTION, plot, cells], folder)


def _is_shown(row: Row, largest: int) -> bool:
    return _is_first(row) or (row["method"], row["batch_size"]) == ("replay", largest)


def _is_first(row: Row) -> bool:
    return (row["device"], row["precision"]) == SHOWN


def _cells(row: Row) -> list[str]:
    parts = row["milliseconds"]
    return [
        f"{row['device']}, {row['precision']}",
        str(row["batch_size"]),
        row["method"],
        f"{row['calls']:,.0f}",
        f"{parts['launching']:.1f}",
        f"{parts['preparing']:.1f}",
        f"{parts['device']:.1f}, {row['device_binds']}",
        f"{row['sentences_per_second']:,.0f}",
        f"{row['sentences_per_second_side_by_side']:,.0f}",
        row["binds"],
    ]


def _plot(own: Sequence[Row]) -> Figure:
    sizes = sorted({row["batch_size"] for row in own})
    curves: dict[str, dict[int, Estimate]] = {}
    for row in own:
        curves.setdefault(row["method"], {})[row["batch_size"]] = exactly(row["sentences_per_second"])

    def finish(axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("batch size")
        axes.yaxis.set_major_formatter(PLAIN)
        axes.set_ylabel("sentences per second")

    device, precision = SHOWN
    return draw_panels(f"Predicted: training on an {device}, {precision}, UD English EWT", curves, finish)


FIGURES: dict[str, Callable[[], str]] = {
    "measured-gpu": measured,
    "measured-gpu-over-predicted": measured_over_predicted,
    "training-with-graphs": training_with_graphs,
    "rounding": rounding,
    "predicted-gpu": predicted,
    "predicted-this-cpu": this_cpu,
    "predicted-transformer": transformer,
    "predicted-transformer-memory": transformer_memory,
    "shapes": shapes,
    "making": making,
}
