"""What a run leaves behind: numbers for people, for TensorBoard and for other programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import TracebackType

import yaml
from torch.utils.tensorboard import SummaryWriter

from parser.config import Config

METRICS, BOARD = "metrics.jsonl", "tensorboard"


def make_way(run: Path) -> Path | None:
    """Move a folder that holds an earlier run aside; returns where to, or None if there was nothing to move.

    Raises ValueError for a folder that holds other things.
    """
    if not run.exists() or (run.is_dir() and not any(run.iterdir())):
        return None
    if not (run / METRICS).is_file():
        raise ValueError(f"{run}: holds something that is not a run; choose another folder with --run")
    run = run.resolve()
    number = 1
    while (aside := run.with_name(f"{run.name}.{number}")).exists():
        number += 1
    run.rename(aside)
    return aside


class Record:
    """Writes each epoch's metrics to `metrics.jsonl` and to TensorBoard, the same numbers to both."""

    def __init__(self, folder: Path, config: Config):
        folder.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(config.model_dump(), sort_keys=False)
        (folder / "config.yaml").write_text(text, encoding="utf-8")
        self._lines = (folder / METRICS).open("w", encoding="utf-8")
        self._board = SummaryWriter(str(folder / BOARD))
        self._board.add_text("config", f"```yaml\n{text}```")

    def write(self, epoch: int, metrics: dict[str, float]) -> None:
        """metrics: numbers by name, units in the names; JSON has null for what is no number."""
        numbers = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        self._lines.write(json.dumps({"epoch": epoch, **numbers}) + "\n")
        self._lines.flush()
        for name, value in metrics.items():
            self._board.add_scalar(name, value, epoch)

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._board.close()
