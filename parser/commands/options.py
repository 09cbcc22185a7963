"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import torch

from parser.batching.precision import Precision, set_precision
from parser.console import warn
from parser.machine import choose_device
from parser.parsing.ensemble import ModelChoice, load_models
from parser.parsing.model import Model
from parser.parsing.parse import BATCH_SIZE
from parser.remote import start_server
from parser.treebank.conllu import Roots
from parser.treebank.sentence import Sentence

WORKER_MODULES = ("parser.parsing.part_parser", "parser.evaluation.part_evaluator")
"""Of processes that parse."""
Commands = Any
"""What `argparse.ArgumentParser.add_subparsers` returns, a class that it does not name."""


def add_config(command: argparse.ArgumentParser, examples: str, run: str) -> None:
    """examples: the folder of such configs; run: the default folder of its runs."""
    command.add_argument("config", type=Path, metavar="CONFIG", help=f"YAML file like those in {examples}/")
    command.add_argument(
        "--run", type=Path, help=f"folder of the run (default: {run}/NAME for {examples}/NAME.yaml)"
    )


def add_overrides(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting of the config, such as --set training.batch_size=32; "
        "may be given several times",
    )


def add_roots(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--roots",
        choices=get_args(Roots),
        default="refuse",
        help="what to do with trees that have several roots (default: %(default)s)",
    )


def add_punctuation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--no-punct", action="store_true", help="leave punctuation out of the scores")


def add_model(command: argparse.ArgumentParser, name: str = "MODEL") -> None:
    command.add_argument("model", type=Path, metavar=name, help="folder or package of a trained model")
    command.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:1, ... (default: CUDA where available)"
    )
    command.add_argument(
        "--threads", type=positive, default=1, help="CPU threads of a process (default: %(default)s)"
    )
    command.add_argument(
        "--batch-size",
        type=positive,
        default=BATCH_SIZE,
        help="sentences parsed at the same time (default: %(default)s)",
    )
    command.add_argument(
        "--precision",
        choices=get_args(Precision),
        default="float32",
        help="of matrix products (default: %(default)s); tf32 is for GPUs",
    )
    command.add_argument("--slots", type=_renamed("--batch-size"), help=argparse.SUPPRESS)


def add_ensemble(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--ensemble",
        type=Path,
        action="append",
        default=[],
        metavar="MODEL",
        help="another model, whose scores are averaged with those of the first at every transition; "
        "may be given several times",
    )


def add_treebank_name(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--treebank",
        dest="treebank_name",
        metavar="NAME",
        help="parse as one of the treebanks that the model was trained on, such as en_ewt "
        "(default: the first one)",
    )


def models_of(options: argparse.Namespace) -> ModelChoice:
    """The models of a command with `--ensemble` and `--treebank`."""
    return ModelChoice((options.model, *options.ensemble), options.treebank_name)


def add_processes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="parse parts of the input on a CPU in N processes at the same time (default: %(default)s)",
    )


def add_text(command: argparse.ArgumentParser, what_is: str) -> None:
    """what_is: begins the descriptions, such as "IN is"."""
    forms = command.add_mutually_exclusive_group()
    for option, form, text in (
        ("--text", "raw", "raw text, whose paragraphs end at blank lines"),
        ("--one-sentence-per-line", "one-sentence-per-line", "raw text with a sentence in each line"),
        ("--tokenized", "tokenized", "text with a sentence in each line, and blanks between its words"),
    ):
        forms.add_argument(option, dest="form", action="store_const", const=form, help=f"{what_is} {text}")
    add_trust(command)


def add_trust(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trust-tokenizer",
        action="store_true",
        help="open the model's tokenizer although it was trained elsewhere: a file that is not checked",
    )


def prepared_device(options: argparse.Namespace) -> torch.device:
    """The device of a command with a model, after setting threads and precision. Raises ValueError."""
    device = choose_device(options.device)
    torch.set_num_threads(options.threads)
    set_precision(options.precision, device)
    return device


def loaded(options: argparse.Namespace) -> Model:
    """The model of a command with `--processes`. Raises ValueError for several processes on a GPU."""
    device = prepared_device(options)
    if options.processes > 1 and device.type != "cpu":
        raise ValueError(f"--processes is for CPUs, not for {device}: use --device cpu, or one process")
    if options.processes > 1:
        start_server(WORKER_MODULES)  # which imports them while the model is loaded
    return load_models(models_of(options), device)


def refuse_to_retag(options: argparse.Namespace, model: Model) -> None:
    """Raises ValueError for --retag if the model predicts nothing that it could replace."""
    if options.retag and not model.vocabulary.predicted:
        raise ValueError(f"{options.model}: predicts neither tags nor lemmas; leave out --retag")


def positive(text: str) -> int:
    """The type of an option that is a number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _renamed(now: str) -> Callable[[str], None]:
    """The type of an option that has another name now."""

    def refuse(text: str) -> None:
        raise argparse.ArgumentTypeError(f"this option is now called {now}")

    return refuse


def watched(model: Model, sentences: Iterable[Sentence], source: str) -> Iterator[Sentence]:
    """The sentences; warns if they lack what the model reads. source: where they come from."""
    return model.watch().check(sentences, warning_of(source))


def warning_of(source: str) -> Callable[[str], None]:
    """Writes a warning about a source of sentences."""
    return lambda text: warn(f"warning: {source}: {text}")
