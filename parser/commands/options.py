"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from parser.console import warn
from parser.parsing.model import Model
from parser.parsing.parse import BATCH_SIZE
from parser.treebank.conllu import Roots
from parser.treebank.sentence import Sentence

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
    command.add_argument("model", type=Path, metavar=name, help="folder of a trained model")
    command.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:1, ... (default: CUDA where available)"
    )
    command.add_argument("--threads", type=positive, default=1, help="CPU threads (default: %(default)s)")
    command.add_argument(
        "--batch-size",
        type=positive,
        default=BATCH_SIZE,
        help="sentences parsed at the same time (default: %(default)s)",
    )
    command.add_argument("--slots", type=_renamed("--batch-size"), help=argparse.SUPPRESS)


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
    return model.watch().check(sentences, lambda text: warn(f"warning: {source}: {text}"))
