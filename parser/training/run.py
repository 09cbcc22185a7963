"""A training run from its config to its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from parser.batching.precision import set_precision
from parser.config import Config, data_path
from parser.distributed.joining import own_device
from parser.distributed.process_group import ALONE, ProcessGroup
from parser.evaluation.evaluate import evaluate, evaluate_text
from parser.machine import choose_device
from parser.parsing.model import Model
from parser.parsing.text_input import text_reader
from parser.stamp import stamp
from parser.text.parts import TextPart
from parser.text.reading import read_parts
from parser.text.treebank_text import treebank_text
from parser.training.curves import write_curves
from parser.training.folder import BEST_MODEL
from parser.training.loop import train
from parser.training.result import Results, write_result
from parser.treebank.conllu import read_treebank


def train_and_score(
    config: Config, run: Path, resume: bool = False, processes: ProcessGroup = ALONE
) -> dict[str, Any] | None:
    """Train a parser, score the best model on the test set if there is one, and on its raw text if the model
    has a tokenizer; returns what `result.json` has, but None in other processes than the first.

    Sets the threads and the precision of the process. Raises what `train` raises.
    """
    device = own_device(choose_device(config.device))
    torch.set_num_threads(config.threads)
    set_precision("float32", device)  # PyTorch's default for cuDNN is tf32
    test = None
    if config.treebank.test:
        test = read_treebank(data_path(config.treebank.test), config.treebank.roots)
    began = stamp()
    scores = train(config, run, device, resume, processes)
    if not processes.is_first:
        return None
    test_scores = text_scores = None
    if test:
        model = Model.load(run / BEST_MODEL, device)
        test_scores = evaluate(model, test)
        if config.tokenizer:
            reader = text_reader(run / BEST_MODEL, "raw", trusted=True)  # the run has trained it
            text_scores = evaluate_text(model, read_parts(reader, [TextPart(0, treebank_text(test))]), test)
    write_curves(run)
    return write_result(run, Results(scores, test_scores, text_scores, processes.count), device, began)
