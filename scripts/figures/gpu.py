"""What is predicted for GPUs from counts, how well these give a CPU's speed, and what CUDA graphs need."""

from __future__ import annotations

from collections.abc import Callable

from figures.cells import table
from figures.kept import Row, rows

FOLDER = "speed/predicted-gpu"
SIZES = 64, 256
METHODS = {
    "replay": "replay",
    "replay-graph": "replay in CUDA graphs",
    "step-naive": "by step, as the paper's authors",
}


def predicted() -> str:
    """Training steps on an H100 in float32; and where the thread that prepares batches takes nothing."""
    found = {
        (row["method"], row["batch_size"]): row
        for row in rows(f"{FOLDER}/rows.jsonl")
        if (row["device"], row["precision"]) == ("H100 SXM", "float32")
    }
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
    """Predicted over measured time on a CPU, the fastest of all rounds, since the machine is shared."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows(f"{FOLDER}/this-cpu.jsonl"):
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
    found = {row["batch_size"]: row for row in rows(f"{FOLDER}/shapes.jsonl")}

    def share(size: int, what: str) -> str:
        return f"{found[size][what]:.1%}".replace("%", " %")

    return table(
        ("batch", "graphs", "batches that they serve", "more rows for the LSTMs"),
        ((size, found[size]["shapes"], share(size, "share"), share(size, "padding")) for size in SIZES),
    )


def transformer() -> str:
    """Words per second in training with all of XLM-R (base), predicted."""
    found = {(row["device"], row["precision"]): row for row in rows(f"{FOLDER}/transformer.jsonl")}
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
    [memory] = {tuple(row["memory_gib"].values()) for row in rows(f"{FOLDER}/transformer.jsonl")}
    header = (
        "GiB",
        "weights, gradients and the optimizer's state",
        "kept for the backward pass of 1,000 words",
    )
    return table(header, [("predicted", *(f"{number:.1f}" for number in memory))])


FIGURES: dict[str, Callable[[], str]] = {
    "predicted-gpu": predicted,
    "predicted-this-cpu": this_cpu,
    "predicted-transformer": transformer,
    "predicted-transformer-memory": transformer_memory,
    "shapes": shapes,
}
