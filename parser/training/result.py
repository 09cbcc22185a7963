"""What a finished run leaves for other programs: scores, times, and where they were reached, in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from parser.evaluation.scores import Scores
from parser.files import replace_file
from parser.parsing.model import SCORES
from parser.training.folder import BEST_MODEL, METRICS

RESULT = "result.json"


def write_result(
    run: Path, dev: Scores, test: Scores | None, device: torch.device, stamp: dict[str, Any]
) -> dict[str, Any]:
    """Returns what is written.

    dev: of the best model; test: of the same, if there is such a treebank; stamp: `parser.stamp.stamp()`,
    made when the run began or last went on.
    """
    epochs = [json.loads(line) for line in (run / METRICS).read_text(encoding="utf-8").splitlines()]
    best = json.loads((run / BEST_MODEL / SCORES).read_text(encoding="utf-8"))
    result: dict[str, Any] = {
        "epochs": len(epochs),
        "best_epoch": best["epoch"],
        "seconds": sum(epoch["seconds"] for epoch in epochs),
        "dev": dev.as_dict(),
        "test": test and test.as_dict(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        **stamp,
    }
    replace_file(run / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result


def read_result(run: Path) -> dict[str, Any]:
    """As it was written. Raises FileNotFoundError."""
    result: dict[str, Any] = json.loads((run / RESULT).read_text(encoding="utf-8"))
    return result
