"""The metrics of a run: written as JSON Lines and to TensorBoard after each epoch, and drawn as curves."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from io import BytesIO
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from parser.evaluation.measures import MEASURES
from parser.evaluation.scores import Scores
from parser.evaluation.text_scores import TextScores
from parser.models.model_files import SCORES
from parser.system.files import write_atomically
from parser.training.folder import BEST_MODEL, METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOARD = "tensorboard"


class Record:
    """Writes the same numbers to `metrics.jsonl` and to TensorBoard."""

    def __init__(self, folder: Path, config: str, size: int = 0):
        """config: the text of the config. size: the size of `metrics.jsonl` in bytes at the last checkpoint;
        the rest of the file is cut off. Raises ValueError if the file is shorter.
        """
        # Imported here because it is slow, and every command imports this file.
        from torch.utils.tensorboard import SummaryWriter

        path = folder / METRICS
        path.touch()
        if path.stat().st_size < size:
            raise ValueError(f"{path}: a part of it is missing; train without --resume")
        os.truncate(path, size)
        rows = epochs_of(folder)
        self._lines = path.open("a", encoding="utf-8")
        shutil.rmtree(folder / BOARD, ignore_errors=True)
        self._board = SummaryWriter(str(folder / BOARD))
        self._board.add_text("config", f"```yaml\n{config}```")
        for row in rows:
            self._show(row.pop("epoch"), row)

    def write(self, epoch: int, metrics: Mapping[str, float]) -> int:
        """Add an epoch; values that are not finite become null. Returns the size of the file in bytes."""
        numbers = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        self._lines.write(json.dumps({"epoch": epoch, **numbers}) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self._show(epoch, numbers)
        return self._lines.tell()

    def _show(self, epoch: int, numbers: Mapping[str, float | None]) -> None:
        for name, value in numbers.items():
            self._board.add_scalar(name, float("nan") if value is None else value, epoch)

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._board.close()


CURVES = "curves.svg"
SIZE = 9, 3.6
"""Width and height in inches."""
LOSSES = {"loss": "training", "dev_loss": "dev"}


def write_curves(run: Path) -> None:
    """Draw the metrics of all epochs of a run into its folder."""
    write_atomically(run / CURVES, drawn_curves(epochs_of(run)))


def epochs_of(run: Path) -> list[dict[str, Any]]:
    """The metrics of the epochs that a run has finished.

    Raises ValueError or OSError for a file that cannot be read.
    """
    path = run / METRICS
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        del lines[-1]  # it is still being written
    return [_epoch(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _epoch(line: str, where: str) -> dict[str, Any]:
    """The metrics in a line. where: file and line number, for messages. Raises ValueError."""
    try:
        metrics = json.loads(line)
        if isinstance(metrics, dict) and "epoch" in metrics:
            return metrics
    except ValueError:
        pass
    raise ValueError(f"{where}: not the metrics of an epoch; train without --resume")


def drawn_curves(epochs: Sequence[Mapping[str, Any]]) -> bytes:
    """The curves as SVG. epochs: see `epochs_of`."""
    # Imported here because it takes a second, and every command imports this file.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    numbers = [epoch["epoch"] for epoch in epochs]
    panels = [_draw_losses]
    if any(f"dev_{measure}" in epoch for epoch in epochs for measure in MEASURES):
        panels.append(_draw_scores)
    figure = Figure(SIZE)
    figure.subplots_adjust(left=0.09, right=0.99, bottom=0.14, top=0.97)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes, numbers, epochs)
        axes.set_xlabel("epoch")
        axes.grid(True, color="0.9")
        axes.legend(fontsize="small")
    drawn = BytesIO()
    # A fixed salt and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": CURVES}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _draw_losses(axes: Axes, numbers: Sequence[int], epochs: Sequence[Mapping[str, Any]]) -> None:
    """numbers: the numbers of the epochs."""
    from matplotlib.ticker import LogLocator, NullLocator

    for key, name in LOSSES.items():
        if any(key in epoch for epoch in epochs):
            axes.plot(numbers, _values(epochs, key), marker=".", label=name)
    axes.set(ylabel="loss", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")  # the default sets labels as formulas, which is slow
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_scores(axes: Axes, numbers: Sequence[int], epochs: Sequence[Mapping[str, Any]]) -> None:
    """numbers: the numbers of the epochs."""
    for measure, name in MEASURES.items():
        if any(f"dev_{measure}" in epoch for epoch in epochs):
            values = _values(epochs, f"dev_{measure}")
            best = max(filter(isfinite, values), default=0.0)
            axes.plot(numbers, values, marker=".", label=f"{name}, best {best:.2f}")
    axes.set_ylabel("dev score, percent")


def _values(epochs: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """The values of a metric in all epochs; nan where the file contains null."""
    values = (epoch.get(key) for epoch in epochs)
    return [float("nan") if value is None else value for value in values]


RESULT = "result.json"


class Results(NamedTuple):
    """Scores of the best model."""

    dev: Scores | None
    """None if the config has no dev set."""
    test: Scores | None
    """None if the config has no test set."""
    text: TextScores | None
    """Scores on the raw text of the test set; None if the model has no tokenizer."""
    processes: int = 1
    """The number of processes that trained."""


def write_result(run: Path, results: Results, device: torch.device, stamp: dict[str, Any]) -> dict[str, Any]:
    """Write `result.json`; returns its content.

    stamp: what `machine.stamp` returns, and the provenance of the treebanks, when the run was started or last
    resumed.
    """
    epochs = epochs_of(run)
    best = json.loads((run / BEST_MODEL / SCORES).read_text(encoding="utf-8"))
    result: dict[str, Any] = {
        "epochs": len(epochs),
        "best_epoch": best["epoch"],
        "seconds": sum(epoch["seconds"] for epoch in epochs),
        "dev": results.dev and results.dev.as_dict(),
        "test": results.test and results.test.as_dict(),
        "text": results.text and results.text.as_dict(),
        "processes": results.processes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        **stamp,
    }
    write_atomically(run / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result


def read_result(run: Path) -> dict[str, Any]:
    """The content of `result.json`. Raises FileNotFoundError."""
    result: dict[str, Any] = json.loads((run / RESULT).read_text(encoding="utf-8"))
    return result
