"""The metrics of a run: written as JSON Lines and to TensorBoard after each epoch, and drawn as curves."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from parser.evaluation.measures import MEASURES
from parser.models.model_files import SCORES
from parser.system.files import write_atomically
from parser.system.version import naming_missing

if TYPE_CHECKING:
    from parser.system.pytorch import MemoryUse

METRICS, BEST_MODEL = "metrics.jsonl", "model"
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
    epochs = []
    for number, line in enumerate(lines, 1):
        metrics = None
        with suppress(ValueError):
            metrics = json.loads(line)
        if not isinstance(metrics, dict) or "epoch" not in metrics:
            raise ValueError(f"{path}:{number}: not the metrics of an epoch; train without --resume")
        epochs.append(metrics)
    return epochs


def drawn_curves(epochs: Sequence[Mapping[str, Any]]) -> bytes:
    """The curves as SVG. epochs: see `epochs_of`. Raises MissingPackageError without matplotlib."""
    # Imported here because it takes a second, and every command imports this file.
    with naming_missing("drawing learning curves", "plots"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullLocator

    numbers = [epoch["epoch"] for epoch in epochs]
    keys = {key for epoch in epochs for key in epoch}
    measures = [measure for measure in MEASURES if f"dev_{measure}" in keys]
    figure = Figure(SIZE)
    figure.subplots_adjust(left=0.09, right=0.99, bottom=0.14, top=0.97)
    losses, *scores = figure.subplots(1, 1 + bool(measures), squeeze=False)[0]
    for key, name in LOSSES.items():
        if key in keys:
            losses.plot(numbers, _values(epochs, key), marker=".", label=name)
    losses.set(ylabel="loss", yscale="log")
    losses.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    losses.yaxis.set_major_formatter("{x:g}")  # the default sets labels as formulas, which is slow
    losses.yaxis.set_minor_locator(NullLocator())
    for axes in scores:
        for measure in measures:
            values = _values(epochs, f"dev_{measure}")
            best = max(filter(math.isfinite, values), default=0.0)
            axes.plot(numbers, values, marker=".", label=f"{MEASURES[measure]}, best {best:.2f}")
        axes.set_ylabel("dev score, percent")
    for axes in (losses, *scores):
        axes.set_xlabel("epoch")
        axes.grid(True, color="0.9")
        axes.legend(fontsize="small")
    drawn = BytesIO()
    # A fixed salt and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": CURVES}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _values(epochs: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """The values of a metric in all epochs; nan where the file contains null."""
    values = (epoch.get(key) for epoch in epochs)
    return [float("nan") if value is None else value for value in values]


RESULT = "result.json"


def write_result(
    run: Path,
    device: str,
    stamp: Mapping[str, Any],
    processes: int,
    scores: Mapping[str, Mapping[str, Any] | None],
    memory: MemoryUse,
) -> dict[str, Any]:
    """Write `result.json`; returns its content.

    stamp: what `machine.stamp` returns, and the provenance of the treebanks, when the run was started or last
    resumed. processes: how many trained. scores: of the best model on dev, test and the raw text of test.
    memory: of this process since it started.
    """
    epochs = epochs_of(run)
    best = json.loads((run / BEST_MODEL / SCORES).read_text(encoding="utf-8"))
    result: dict[str, Any] = {
        "epochs": len(epochs),
        "best_epoch": best["epoch"],
        "seconds": sum(epoch["seconds"] for epoch in epochs),
        **scores,
        "peak_memory": asdict(memory),
        "processes": processes,
        "device": device,
        **stamp,
    }
    write_atomically(run / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result


def read_result(run: Path) -> dict[str, Any]:
    """The content of `result.json`. Raises FileNotFoundError."""
    result: dict[str, Any] = json.loads((run / RESULT).read_text(encoding="utf-8"))
    return result
