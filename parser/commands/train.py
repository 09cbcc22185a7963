"""`stack-parser train`: train a parser with a config, and score it on the test set."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from parser.commands.errors import exit_code_of
from parser.evaluation.measures import TEXT_MEASURES, TextMeasure, shown
from parser.evaluation.report import score_line
from parser.system.console import say
from parser.system.device_choice import choose_device
from parser.system.files import real_path
from parser.system.pytorch import FEW_KERNELS, MANY_KERNELS, peak_memory, tune_process
from parser.training.config import read_config
from parser.training.folder import CONFIG, refuse_without_checkpoint
from parser.training.launcher import launch
from parser.training.processes import ProcessGroup, join_processes
from parser.training.record import BEST_MODEL, METRICS
from parser.training.run import train_and_score

OF_TEXT: tuple[TextMeasure, ...] = "tokens", "sentences", "words", "uas", "las"
"""Scores on the raw text of the test set that are shown."""
CONFIG_SUFFIXES = ".yaml", ".yml"


def train_parser(options: argparse.Namespace) -> None:
    if options.initial_model is not None:
        options.overrides.append(f"initial_model={json.dumps(options.initial_model, ensure_ascii=False)}")
    config, run = _paths(options)
    if options.processes > 1:
        overrides = [f"--set={override}" for override in options.overrides]
        resume = ["--resume"] if options.resume else []
        arguments = ["train", str(config), "--run", str(run), *overrides, *resume]
        sys.exit(launch(arguments, options.processes))
    with join_processes(exit_code_of) as processes:
        _train(config, run, options.overrides, bool(options.resume), processes)


def _paths(options: argparse.Namespace) -> tuple[Path, Path]:
    """Return the paths of the config and of the run's folder. Raises ValueError if they are not determined.

    A folder, or the config in it, means the run in that folder.
    """
    resumed = options.resume if isinstance(options.resume, Path) else None
    if not (options.config or resumed or (options.resume and options.folder)):
        raise ValueError("train needs a config, such as configs/quickstart.yaml, or --resume RUN")
    if resumed and options.folder:
        raise ValueError("--resume RUN and --run both name a folder: give one of them")
    if resumed and resumed.is_file() and resumed.suffix not in CONFIG_SUFFIXES:
        raise ValueError(
            f"{resumed}: is no folder of a run, which --resume continues, as in --resume runs/NAME; "
            "to begin a run with the weights of a model write --from MODEL"
        )
    if options.config and options.config.suffix in CONFIG_SUFFIXES:
        options.config.stat()  # if it is missing, the message is about the config, not the run
    run = options.folder or resumed or options.config
    if not options.folder:
        if run.name == CONFIG and (run.parent / METRICS).is_file():
            run = run.parent
        elif run.exists() and not run.is_dir():
            run = Path("runs") / run.stem
    is_run = options.config and options.config.is_dir() and options.resume
    if is_run and real_path(options.config) != real_path(run):
        raise ValueError(f"{options.config} and {run}: are two runs; name the one that goes on")
    if not options.resume and options.config.is_dir():
        raise ValueError(f"{options.config}: is a folder; give a config, or continue with --resume")
    if options.config and not options.config.is_dir():
        return options.config, run
    return resumed if resumed and resumed.is_file() else run / CONFIG, run


def _train(
    config_path: Path, run: Path, overrides: Sequence[str], resume: bool, processes: ProcessGroup
) -> None:
    if resume and processes.is_first:
        refuse_without_checkpoint(run)
    config = read_config(config_path, overrides)
    tune_process(FEW_KERNELS if config.parser.network.transformer else MANY_KERNELS)
    result = train_and_score(config, run, resume, processes)
    if result is None:
        return
    epochs = f"epoch {result['best_epoch']} of {result['epochs']}"
    device = torch.device(choose_device(config.device))
    model, spent = ("best model", "training and dev") if result["dev"] else ("model", "training")
    took = f"{result['seconds']:.0f} s of {spent} on {device}"
    say("", f"{model}: {run / BEST_MODEL}, {epochs}, {took}")
    measures = shown(config.parser.network.tags.predict)
    for name, scores in (("dev ", result["dev"]), ("test", result["test"])):
        if scores:
            say(f"{name}  {score_line(scores, measures)}")
    if text := result["text"]:
        say("text  " + "  ".join(f"{TEXT_MEASURES[measure]} {text[measure]:.2f}" for measure in OF_TEXT))
    say(f"peak memory {peak_memory(device)}")
