"""Tables of recurrent networks computed by connected components (Hwang & Sung 2015)."""

from __future__ import annotations

from collections.abc import Callable

from figures.kept import Row, SpeedRun, rows, speed_run, table
from parser.speed.measuring.statistics import Estimate

NETWORKS = {
    "elman": "Elman, 38,000 - 512 - 20,000",
    "peephole-lstm": "LSTM with peepholes, 38,000 - 512 - 20,000",
    "lstm": "LSTM as in PyTorch, 38,000 - 512 (embedding) - 512 - 20,000",
    "elman-equal": "Elman, 512 - 512 - 512",
    "peephole-lstm-equal": "LSTM with peepholes, 512 - 512 - 512",
    "lstm-equal": "LSTM as in PyTorch, 512 - 512 - 512",
}
SYMBOLS = {
    128: "peephole-lstm-128",
    256: "peephole-lstm-256",
    512: "peephole-lstm-equal",
    1024: "peephole-lstm-1024",
    2048: "peephole-lstm-2048",
    4096: "peephole-lstm-4096",
}
VECTORS = {size: f"peephole-lstm-vectors-{size}" for size in SYMBOLS}
ONE_STREAM = "components@1"


def over(run: SpeedRun, network: str, other: str) -> Estimate | None:
    """The speed of one stream by components over that of another cell; None if this was not measured."""
    return run.ratio(network, ONE_STREAM, other) if run.has(network, other) else None


def measured(run: SpeedRun) -> dict[str, str]:
    """The titles of the networks that were measured, by their experiments."""
    return {name: title for name, title in NETWORKS.items() if run.has(name, ONE_STREAM)}


def summary() -> str:
    run, networks = speed_run("recurrence"), ("elman", "peephole-lstm")
    speeds = [run.cell(each, ONE_STREAM).tokens_per_second for each in networks]
    gains = {
        "speed-up over running every connection frame by frame (the paper: over 10)": ("none@1", 1),
        "the same, if the baseline computes each weight's gradient in one product": ("late-gradients@1", 1),
        "over PyTorch's own layer, then one linear layer": ("library@1", 2),
        "share of the speed of 1,024 streams": ("both@1024", 2),
    }

    def gain(network: str, cell: str, digits: int) -> str:
        found = over(run, network, cell)
        return f"{found.value:.{digits}f}" if found else ""

    lines = [(title, *(gain(each, *cell) for each in networks)) for title, cell in gains.items()]
    return table(
        ("", "Elman", "LSTM with peepholes"),
        [
            ("words a second in training", *(f"{speed:,.0f}" for speed in speeds)),
            *(line for line in lines if any(line[1:])),
        ],
    )


def one_stream() -> str:
    """Words per second with one stream, and ratios; with PyTorch's own layers if they were measured."""
    run = speed_run("recurrence")
    networks = measured(run)
    library = {"library": 2} if any(run.has(name, "library@1") for name in networks) else {}
    others = {"none": 1, "late-gradients": 1, **library}

    def speed(name: str, method: str) -> str:
        cell = f"{method}@1"
        return f"{run.cell(name, cell).tokens_per_second:,.0f}" if run.has(name, cell) else ""

    def gain(name: str, method: str, digits: int) -> str:
        found = over(run, name, f"{method}@1")
        return f"{found:.{digits}f}" if found else ""

    methods = (*others, "components")
    return table(
        (
            "one stream, words per second in training",
            *(f"`{method}`" for method in methods),
            *(f"components / {method}" for method in others),
        ),
        (
            (
                title,
                *(speed(name, method) for method in methods),
                *(gain(name, method, digits) for method, digits in others.items()),
            )
            for name, title in networks.items()
        ),
    )


def streams() -> str:
    """Speeds of fewer streams over those of 1,024, and their shares of the speed of large products."""
    run = speed_run("recurrence")
    some = (ONE_STREAM, "both@64")
    return table(
        ("share of the speed of 1,024 streams", "1 stream", "64 streams", "MFU of 1 stream", "64", "1,024"),
        (
            (
                title,
                *(f"{run.ratio(name, cell, 'both@1024').value:.2f}" for cell in some),
                *(f"{run.cell(name, cell).mfu:.2f}" for cell in (*some, "both@1024")),
            )
            for name, title in measured(run).items()
        ),
    )


def beside_library() -> str:
    """The speed of our implementation next to PyTorch's own layers."""
    run, sizes = speed_run("recurrence"), (1, 16, 64, 256, 1024)
    lines = [
        (title, *(f"{run.ratio(name, f'both@{size}', f'library@{size}').value:.2f}" for size in sizes))
        for name, title in (("lstm-library", "LSTM"), ("elman-library", "Elman"))
        if run.has(name, "library@1")
    ]
    return table(("share of the speed of PyTorch's layer, streams", *(f"{size:,}" for size in sizes)), lines)


def layer_sizes() -> str:
    """Utilisation by layer size, as in Figure 4, with the paper's peephole LSTM."""
    run = speed_run("recurrence")
    methods = {
        "none@1": "1 stream, without batching",
        ONE_STREAM: "1 stream, by components",
        "streams@64": "64 streams, frame by frame",
        "both@64": "64 streams, by components",
    }
    lines = [
        (inputs, title, names, cell)
        for inputs, names in (("symbols", SYMBOLS), ("vectors", VECTORS))
        for cell, title in methods.items()
        if any(run.has(name, cell) for name in names.values())
    ]
    sizes = [size for size in SYMBOLS if any(run.has(names[size], cell) for *_, names, cell in lines)]

    def mfu(name: str, cell: str) -> str:
        return f"{run.cell(name, cell).mfu:.3f}" if run.has(name, cell) else ""

    return table(
        ("MFU", "inputs", *(f"{size:,} units" for size in sizes)),
        (
            (title, inputs, *(mfu(names[size], cell) for size in sizes))
            for inputs, title, names, cell in lines
        ),
    )


def learning() -> str:
    """Perplexities at the end of training: all methods learn alike."""
    found: dict[str, list[Row]] = {}
    for row in rows("speed/recurrence/learning.jsonl"):
        found.setdefault(row["experiment"], []).append(row)

    def perplexities(own: list[Row], note: str) -> str:
        return " or ".join(dict.fromkeys(f"{row['notes'][note]:,.2f}" for row in own))

    return table(
        ("network", "methods", "epochs", "perplexity", "by frequencies of words alone"),
        (
            (
                name,
                ", ".join(f"`{row['method']}`" for row in own),
                len(own[0]["scores"]),
                perplexities(own, "perplexity"),
                perplexities(own, "perplexity by frequencies"),
            )
            for name, own in found.items()
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
