"""The metrics of a run, written after each epoch to a JSON Lines file and to TensorBoard."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from parser.training.folder import METRICS

BOARD = "tensorboard"


class Record:
    """Writes the same numbers to `metrics.jsonl` and to TensorBoard."""

    def __init__(self, folder: Path, config: str, size: int = 0):
        """config: its text; size: bytes of `metrics.jsonl` that the checkpoint knows of; the rest is cut off.

        Raises ValueError if the file is shorter.
        """
        # It is slow to import, and every command imports this file.
        from torch.utils.tensorboard import SummaryWriter

        path = folder / METRICS
        path.touch()
        if path.stat().st_size < size:
            raise ValueError(f"{path}: a part of it is missing; train without --resume")
        os.truncate(path, size)
        self._lines = path.open("a", encoding="utf-8")
        shutil.rmtree(folder / BOARD, ignore_errors=True)
        self._board = SummaryWriter(str(folder / BOARD))
        self._board.add_text("config", f"```yaml\n{config}```")
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            self._show(row.pop("epoch"), row)

    def write(self, epoch: int, metrics: Mapping[str, float]) -> int:
        """Add an epoch; JSON has null for what is not finite. Returns the size of the file in bytes."""
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
