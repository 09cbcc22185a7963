"""`stack-parser train`: train a parser as a config says, and score it on the test set."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from parser.batching.precision import set_precision
from parser.commands.options import Commands, add_config, add_overrides
from parser.config import data_path
from parser.config_file import read_config
from parser.evaluation.evaluate import evaluate
from parser.evaluation.report import score_line
from parser.machine import choose_device, peak_memory
from parser.parsing.model import Model
from parser.stamp import stamp
from parser.training.folder import BEST_MODEL
from parser.training.loop import train
from parser.training.result import write_result
from parser.treebank.conllu import read_treebank


def add_train(commands: Commands) -> None:
    command = commands.add_parser("train", help="train a parser as a config says")
    add_config(command, "configs", "runs")
    add_overrides(command)
    command.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    command.set_defaults(command=train_parser)


def train_parser(options: argparse.Namespace) -> None:
    config = read_config(options.config, options.overrides)
    run = options.run or Path("runs") / options.config.stem
    device = choose_device(config.device)
    torch.set_num_threads(config.threads)
    set_precision("float32", device)  # PyTorch's default for cuDNN is tf32
    test = None
    if config.treebank.test:
        test = read_treebank(data_path(config.treebank.test), config.treebank.roots)
    began = stamp()
    scores = train(config, run, device, options.resume)
    test_scores = evaluate(Model.load(run / BEST_MODEL, device), test) if test else None
    result = write_result(run, scores, test_scores, device, began)
    epochs = f"epoch {result['best_epoch']} of {result['epochs']}"
    took = f"{result['seconds']:.0f} s of training and dev on {device}"
    print(f"\nbest model: {run / BEST_MODEL}, {epochs}, {took}")
    predicts_tags = bool(config.parser.network.tags.predict)
    for name, own in (("dev ", result["dev"]), ("test", result["test"])):
        if own:
            print(f"{name}  {score_line(own, predicts_tags)}")
    print(f"peak memory {peak_memory(device)}")
