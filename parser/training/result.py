"""`result.json`: scores, times, treebanks and the machine of a finished run, for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from parser.evaluation.scores import Scores
from parser.evaluation.text_scores import TextScores
from parser.parsing.model_format import SCORES
from parser.system.files import write_atomically
from parser.training.folder import BEST_MODEL, METRICS

RESULT = "result.json"


class Results(NamedTuple):
    """Scores of the best model."""

    dev: Scores
    test: Scores | None
    """None if the config has no test set."""
    text: TextScores | None
    """Of the raw text of the test set; None if the model has no tokenizer."""
    processes: int = 1
    """That trained."""


def write_result(run: Path, results: Results, device: torch.device, stamp: dict[str, Any]) -> dict[str, Any]:
    """Write the file; returns its content.

    stamp: `parser.system.stamp.stamp()` and the provenance of the treebanks when the run was started, or
    resumed last.
    """
    epochs = [json.loads(line) for line in (run / METRICS).read_text(encoding="utf-8").splitlines()]
    best = json.loads((run / BEST_MODEL / SCORES).read_text(encoding="utf-8"))
    result: dict[str, Any] = {
        "epochs": len(epochs),
        "best_epoch": best["epoch"],
        "seconds": sum(epoch["seconds"] for epoch in epochs),
        "dev": results.dev.as_dict(),
        "test": results.test and results.test.as_dict(),
        "text": results.text and results.text.as_dict(),
        "processes": results.processes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        **stamp,
    }
    write_atomically(run / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result


def read_result(run: Path) -> dict[str, Any]:
    """The content of the file. Raises FileNotFoundError."""
    result: dict[str, Any] = json.loads((run / RESULT).read_text(encoding="utf-8"))
    return result
