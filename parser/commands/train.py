"""`stack-parser train`: train a parser as a config says, and score it on the test set."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from parser.commands.errors import exit_code_of
from parser.commands.options import Commands, add_config, add_overrides, positive
from parser.config_file import read_config
from parser.distributed.joining import joined
from parser.distributed.launcher import launch
from parser.distributed.process_group import ProcessGroup
from parser.evaluation.report import score_line
from parser.machine import choose_device, peak_memory
from parser.measures import TEXT_MEASURES, TextMeasure, shown
from parser.training.folder import BEST_MODEL
from parser.training.run import train_and_score

OF_TEXT: tuple[TextMeasure, ...] = "tokens", "sentences", "words", "uas", "las"
"""Scores of the raw text of the test set that are shown."""


def add_train(commands: Commands) -> None:
    command = commands.add_parser("train", help="train a parser as a config says")
    add_config(command, "configs", "runs")
    add_overrides(command)
    command.add_argument(
        "--from",
        dest="initial_model",
        metavar="MODEL",
        help="begin with the weights of a model, and add to its vocabulary and labels (fine-tuning)",
    )
    command.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    command.add_argument(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="share each batch among N processes on this machine (default: %(default)s)",
    )
    command.set_defaults(command=train_parser)


def train_parser(options: argparse.Namespace) -> None:
    if options.initial_model is not None:
        options.overrides.append(f"initial_model={json.dumps(options.initial_model, ensure_ascii=False)}")
    if options.processes > 1:
        sys.exit(launch(_arguments(options), options.processes))
    with joined(exit_code_of) as processes:
        _train(options, processes)


def _arguments(options: argparse.Namespace) -> list[str]:
    """Of the command in each of several processes."""
    run = ["--run", str(options.run)] if options.run else []
    overrides = [f"--set={override}" for override in options.overrides]
    return ["train", str(options.config), *run, *overrides, *(["--resume"] if options.resume else [])]


def _train(options: argparse.Namespace, processes: ProcessGroup) -> None:
    config = read_config(options.config, options.overrides)
    run = options.run or Path("runs") / options.config.stem
    result = train_and_score(config, run, options.resume, processes)
    if result is None:
        return
    epochs = f"epoch {result['best_epoch']} of {result['epochs']}"
    device = choose_device(config.device)
    took = f"{result['seconds']:.0f} s of training and dev on {device}"
    print(f"\nbest model: {run / BEST_MODEL}, {epochs}, {took}")
    measures = shown(config.parser.network.tags.predict)
    for name, own in (("dev ", result["dev"]), ("test", result["test"])):
        if own:
            print(f"{name}  {score_line(own, measures)}")
    if text := result["text"]:
        print("text  " + "  ".join(f"{TEXT_MEASURES[measure]} {text[measure]:.2f}" for measure in OF_TEXT))
    print(f"peak memory {peak_memory(device)}")
