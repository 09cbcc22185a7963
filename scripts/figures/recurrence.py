"""Tables of recurrent networks computed by connected components (Hwang & Sung 2015)."""

from __future__ import annotations

from collections.abc import Callable

from figures.kept import Row, grid, grouped, rows, speed_run, table

NETWORKS = {
    "Elman, 38,000 - 512 - 20,000": "elman",
    "LSTM with peepholes, 38,000 - 512 - 20,000": "peephole-lstm",
    "LSTM as in PyTorch, 38,000 - 512 (embedding) - 512 - 20,000": "lstm",
    "Elman, 512 - 512 - 512": "elman-equal",
    "LSTM with peepholes, 512 - 512 - 512": "peephole-lstm-equal",
    "LSTM as in PyTorch, 512 - 512 - 512": "lstm-equal",
}
"""The experiments, by their titles; all of them were measured."""
LAYER_SIZES = 128, 256, 512, 1024, 2048, 4096
RUN = "recurrence"
ONE_STREAM = "components@1"
WORDS = "tokens_per_second"


def summary() -> str:
    run, networks = speed_run(RUN), {"Elman": "elman", "LSTM with peepholes": "peephole-lstm"}
    gains = {
        "speed-up over running every connection frame by frame (the paper: over 10)": ("none@1", 1),
        "the same, if the baseline computes each weight's gradient in one product": ("late-gradients@1", 1),
        "over PyTorch's own layer, then one linear layer": ("library@1", 2),
        "share of the speed of 1,024 streams": ("both@1024", 2),
    }
    speeds = {"words a second in training": (WORDS, 0)}
    return grid(
        "",
        networks,
        speeds | gains,
        lambda line, network: (
            run.speed(network, ONE_STREAM, WORDS)
            if line[0] == WORDS
            else run.over(network, ONE_STREAM, *line).partition(" ")[0]
        ),
    )


def one_stream() -> str:
    """Words per second with one stream, and ratios; with PyTorch's own layers where they were measured."""
    run, others = speed_run(RUN), {"none": 1, "late-gradients": 1, "library": 2}
    speeds = {f"`{method}`": (method, None) for method in (*others, "components")}
    return grid(
        "one stream, words per second in training",
        speeds | {f"components / {method}": (method, digits) for method, digits in others.items()},
        NETWORKS,
        lambda name, column: (
            run.speed(name, f"{column[0]}@1", WORDS)
            if column[1] is None
            else run.over(name, ONE_STREAM, f"{column[0]}@1", column[1])
        ),
    )


def streams() -> str:
    """Speeds of fewer streams over those of 1,024, and their shares of the speed of large products."""
    run, cells = speed_run(RUN), (ONE_STREAM, "both@64", "both@1024")
    return table(
        ("share of the speed of 1,024 streams", "1 stream", "64 streams", "MFU of 1 stream", "64", "1,024"),
        (
            (
                title,
                *(f"{run.ratio(name, cell, cells[-1]).value:.2f}" for cell in cells[:-1]),
                *(f"{run.cell(name, cell).mfu:.2f}" for cell in cells),
            )
            for title, name in NETWORKS.items()
        ),
    )


def beside_library() -> str:
    """The speed of our implementation next to PyTorch's own layers."""
    run = speed_run(RUN)
    return grid(
        "share of the speed of PyTorch's layer, streams",
        {f"{size:,}": size for size in (1, 16, 64, 256, 1024)},
        {"LSTM": "lstm-library", "Elman": "elman-library"},
        lambda name, size: f"{run.ratio(name, f'both@{size}', f'library@{size}').value:.2f}",
    )


def layer_sizes() -> str:
    """Utilisation by layer size, as in Figure 4, with the paper's peephole LSTM."""
    run = speed_run(RUN)
    methods = {
        "1 stream, without batching": "none@1",
        "1 stream, by components": ONE_STREAM,
        "64 streams, frame by frame": "streams@64",
        "64 streams, by components": "both@64",
    }

    def mfu(name: str, cell: str) -> str:
        return f"{run.cell(name, cell).mfu:.3f}" if run.has(name, cell) else ""

    symbols = [f"peephole-lstm-{'equal' if size == 512 else size}" for size in LAYER_SIZES]
    vectors = [f"peephole-lstm-vectors-{size}" for size in LAYER_SIZES]
    return table(
        ("MFU", "inputs", *(f"{size:,} units" for size in LAYER_SIZES)),
        (
            (title, inputs, *(mfu(name, cell) for name in names))
            for inputs, names in (("symbols", symbols), ("vectors", vectors))
            for title, cell in methods.items()
        ),
    )


def learning() -> str:
    """Perplexities at the end of training: all methods learn alike."""
    by_network = grouped((row["experiment"], row) for row in rows("speed/recurrence/learning.jsonl"))

    def perplexities(curves: list[Row], note: str) -> str:
        return " or ".join(dict.fromkeys(f"{row['notes'][note]:,.2f}" for row in curves))

    return table(
        ("network", "methods", "epochs", "perplexity", "by frequencies of words alone"),
        (
            (
                name,
                ", ".join(f"`{row['method']}`" for row in curves),
                len(curves[0]["scores"]),
                *(perplexities(curves, note) for note in ("perplexity", "perplexity by frequencies")),
            )
            for name, curves in by_network.items()
        ),
    )


FIGURES: dict[str, Callable[[], str]] = {
    "recurrence": summary,
    "recurrence-beside-library": beside_library,
    "recurrence-layer-sizes": layer_sizes,
    "recurrence-learning": learning,
    "recurrence-one-stream": one_stream,
    "recurrence-streams": streams,
}
