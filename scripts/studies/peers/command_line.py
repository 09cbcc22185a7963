"""The command line of the other programs: `train TRAIN DEV PLACE`, then `parse MODEL TEST`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

Train = Callable[[Path, Path, Path, int], None]
"""Called with the training treebank, the dev treebank, where the model goes, and how long to train."""
Parse = Callable[[Path, Path], None]
"""Called with the model and the test treebank."""


def run(description: str, train: Train, parse: Parse, length: str, default: int, length_help: str) -> None:
    """Read the command line and do what it says. length: the option that says how long to train."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train")
    for name in ("train", "dev", "place"):
        command.add_argument(name, type=Path)
    command.add_argument(length, dest="length", type=int, default=default, help=length_help)
    command = commands.add_parser("parse")
    for name in ("model", "test"):
        command.add_argument(name, type=Path)
    arguments = parser.parse_args()
    if arguments.command == "train":
        train(arguments.train, arguments.dev, arguments.place, arguments.length)
    else:
        parse(arguments.model, arguments.test)
