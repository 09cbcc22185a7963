"""Recurrent networks by their connected components (Hwang & Sung 2015)."""

from __future__ import annotations

from collections.abc import Callable

from figures.kept import Row, ratios, rows, speed_run, table

NETWORKS = {
    "elman": "Elman, 38,000 - 512 - 20,000",
    "peephole-lstm": "LSTM with peepholes, 38,000 - 512 - 20,000",
    "elman-equal": "Elman, 512 - 512 - 512",
    "peephole-lstm-equal": "LSTM with peepholes, 512 - 512 - 512",
    "lstm-equal": "LSTM as in PyTorch, 512 - 512 - 512",
}
SIZES = {
    "peephole-lstm-128": 128,
    "peephole-lstm-256": 256,
    "peephole-lstm-equal": 512,
    "peephole-lstm-1024": 1024,
}


def summary() -> str:
    run, networks = speed_run("recurrence"), ("elman", "peephole-lstm")

    def over(other: str, digits: int) -> list[str]:
        return [f"{run.ratio(each, 'components@1', other).value:.{digits}f}" for each in networks]

    speeds = [run.cell(each, "components@1").tokens_per_second for each in networks]
    gain = "speed-up over running every connection frame by frame (the paper: over 10)"
    return table(
        ("", "Elman", "LSTM with peepholes"),
        (
            ("words a second in training", *(f"{speed:,.0f}" for speed in speeds)),
            (gain, *over("none@1", 1)),
            (
                "the same, if the baseline computes each weight's gradient in one product",
                *over("late-gradients@1", 1),
            ),
            ("share of the speed of 1,024 streams", *over("both@1024", 2)),
        ),
    )


def one_stream() -> str:
    run, methods = speed_run("recurrence"), ("none", "late-gradients", "components")
    header = (
        "one stream, words per second in training",
        *(f"`{method}`" for method in methods),
        *("components / none", "components / late-gradients"),
    )
    return table(
        header,
        (
            (
                title,
                *(f"{run.cell(name, f'{method}@1').tokens_per_second:,.0f}" for method in methods),
                *(
                    f"{run.ratio(name, 'components@1', f'{other}@1'):.1f}"
                    for other in ("none", "late-gradients")
                ),
            )
            for name, title in NETWORKS.items()
        ),
    )


def streams() -> str:
    """Speeds of fewer streams over those of 1,024, and what each reaches of the machine's products."""
    run = speed_run("recurrence")
    first = dict.fromkeys(NETWORKS, "components@1")
    return table(
        ("share of the speed of 1,024 streams", "1 stream", "64 streams", "MFU of 1 stream", "64", "1,024"),
        (
            (
                title,
                *(f"{run.ratio(name, cell, 'both@1024').value:.2f}" for cell in (first[name], "both@64")),
                *(f"{run.cell(name, cell).mfu:.2f}" for cell in (first[name], "both@64", "both@1024")),
            )
            for name, title in NETWORKS.items()
        ),
    )


def streams_in_turns() -> str:
    lines = ((NETWORKS[name], name, "both@64", "both@1024") for name in list(NETWORKS)[2:])
    return ratios(speed_run("recurrence/in-turns"), lines)


def beside_library() -> str:
    """Our implementation beside PyTorch's own LSTM."""
    run, sizes = speed_run("recurrence"), (1, 16, 64, 256, 1024)
    shares = [f"{run.ratio('lstm-library', f'both@{size}', f'library@{size}').value:.2f}" for size in sizes]
    return table(
        ("streams", *(f"{size:,}" for size in sizes)), [("share of the speed of PyTorch's LSTM", *shares)]
    )


def layer_sizes() -> str:
    """Utilisation by the size of the layers, as in Figure 4, with the paper's peephole LSTM."""
    run = speed_run("recurrence/layer-sizes")
    methods = {
        "none@1": "1 stream, without batching",
        "components@1": "1 stream, by components",
        "streams@64": "64 streams, frame by frame",
        "both@64": "64 streams, by components",
    }
    return table(
        ("MFU", *(f"{size:,} units" for size in SIZES.values())),
        ((title, *(f"{run.cell(name, cell).mfu:.3f}" for name in SIZES)) for cell, title in methods.items()),
    )


def lstm_layer_sizes() -> str:
    """The same of an LSTM as in PyTorch, with 64 streams."""
    run = speed_run("recurrence")
    names = {"lstm-128": 128, "lstm-256": 256, "lstm-equal": 512, "lstm-1024": 1024}
    mfus = [f"{run.cell(name, 'both@64').mfu:.2f}" for name in names]
    return table(
        ("MFU", *(f"{size:,} units" for size in names.values())), [("LSTM as in PyTorch, 64 streams", *mfus)]
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
    "recurrence-lstm-layer-sizes": lstm_layer_sizes,
    "recurrence-one-stream": one_stream,
    "recurrence-streams": streams,
    "recurrence-streams-in-turns": streams_in_turns,
}
