"""A training run from its config to its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from parser.batching.precision import set_precision
from parser.config import Config, data_path
from parser.evaluation.evaluate import evaluate
from parser.machine import choose_device
from parser.parsing.model import Model
from parser.stamp import stamp
from parser.training.folder import BEST_MODEL
from parser.training.loop import train
from parser.training.result import write_result
from parser.treebank.conllu import read_treebank


def train_and_score(config: Config, run: Path, resume: bool = False) -> dict[str, Any]:
    """Train a parser, score the best model on the test set if there is one; returns what `result.json` has.

    Sets the threads and the precision of the process. Raises what `train` raises.
    """
    device = choose_device(config.device)
    torch.set_num_threads(config.threads)
    set_precision("float32", device)  # PyTorch's default for cuDNN is tf32
    test = None
    if config.treebank.test:
        test = read_treebank(data_path(config.treebank.test), config.treebank.roots)
    began = stamp()
    scores = train(config, run, device, resume)
    test_scores = evaluate(Model.load(run / BEST_MODEL, device), test) if test else None
    return write_result(run, scores, test_scores, device, began)
