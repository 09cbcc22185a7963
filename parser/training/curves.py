"""The learning curves of a run as a picture: loss and dev scores over its epochs."""

from __future__ import annotations

import json
from io import BytesIO
from math import isfinite
from pathlib import Path

from parser.files import write_atomically
from parser.measures import MEASURES
from parser.training.folder import METRICS

CURVES = "curves.svg"
SIZE = 9, 3.6
"""Inches."""
LOSSES = {"loss": "training", "dev_loss": "dev"}


def write_curves(run: Path) -> None:
    """Draw the metrics of all epochs of a run into its folder."""
    # It takes a second to import, and every command imports this file.
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    epochs = [json.loads(line) for line in (run / METRICS).read_text(encoding="utf-8").splitlines()]
    numbers = [epoch["epoch"] for epoch in epochs]
    figure = Figure(SIZE)
    losses, scores = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.09, right=0.99, bottom=0.14, top=0.97)
    for key, name in LOSSES.items():
        losses.plot(numbers, [_number(epoch.get(key)) for epoch in epochs], marker=".", label=name)
    losses.set(xlabel="epoch", ylabel="loss", yscale="log")
    losses.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    losses.yaxis.set_major_formatter("{x:g}")  # the usual one sets its labels as formulas, which takes long
    losses.yaxis.set_minor_locator(NullLocator())
    for measure, name in MEASURES.items():
        if any(f"dev_{measure}" in epoch for epoch in epochs):
            values = [_number(epoch.get(f"dev_{measure}")) for epoch in epochs]
            best = max(filter(isfinite, values), default=0.0)
            scores.plot(numbers, values, marker=".", label=f"{name}, best {best:.2f}")
    scores.set(xlabel="epoch", ylabel="dev score, percent")
    for axes in (losses, scores):
        axes.grid(True, color="0.9")
        axes.legend(fontsize="small")
    drawn = BytesIO()
    # The same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": CURVES}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_atomically(run / CURVES, drawn.getvalue())


def _number(value: float | None) -> float:
    """A loss that is not finite is null in the file."""
    return float("nan") if value is None else value
