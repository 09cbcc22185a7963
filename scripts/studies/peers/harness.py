"""The command line of the compared programs, `train TRAIN DEV PLACE`, `parse MODEL TEST`; and their LAS."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

Given, Found = TypeVar("Given"), TypeVar("Found")

Train = Callable[[Path, Path, Path, int], None]
"""Called with the training treebank, the dev treebank, the path of the model, and the training length."""
Parse = Callable[[Path, Path, int], None]
"""Called with the model, the test treebank and the number of sentences that are handed in at once."""
ALL = 1 << 30


def run(description: str, train: Train, parse: Parse, length: str, default: int, length_help: str) -> None:
    """Read and execute the command line. length: name of the option for the training length."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train")
    for name in ("train", "dev", "place"):
        command.add_argument(name, type=Path)
    command.add_argument(length, dest="length", type=int, default=default, help=length_help)
    add_arguments_of_parse(commands.add_parser("parse"))
    arguments = parser.parse_args()
    if arguments.command == "train":
        train(arguments.train, arguments.dev, arguments.place, arguments.length)
    else:
        parse(arguments.model, arguments.test, arguments.together)


def add_arguments_of_parse(command: argparse.ArgumentParser) -> None:
    for name in ("model", "test"):
        command.add_argument(name, type=Path)
    command.add_argument(
        "--together", type=int, default=ALL, help="sentences that are handed in at once (default: all)"
    )


def timed(
    parse: Callable[[Sequence[Given]], Sequence[Found]], sentences: Sequence[Given], together: int
) -> tuple[list[Found], float]:
    """The results of `parse` for consecutive groups of sentences, and the sentences per second."""
    results: list[Found] = []
    began = time.perf_counter()
    for start in range(0, len(sentences), together):
        results += parse(sentences[start : start + together])
    return results, len(sentences) / (time.perf_counter() - began)


class Tree(NamedTuple):
    forms: list[str]
    heads: list[int]
    labels: list[str]


def trees(text: str) -> list[Tree]:
    """The trees of a CoNLL-U text, without multiword tokens and empty nodes."""
    sentences = []
    for block in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        words = [row for row in rows if row[0].isdecimal()]
        heads, labels = [int(row[6]) for row in words], [row[7].split(":")[0] for row in words]
        sentences.append(Tree([row[1] for row in words], heads, labels))
    return sentences


def las(gold: Sequence[Tree], parsed: Sequence[Tree]) -> float:
    """Labelled attachment score in percent: labels without subtypes, punctuation included."""
    right = sum(
        arc == own_arc
        for tree, parse in zip(gold, parsed, strict=True)
        for arc, own_arc in zip(
            zip(tree.heads, tree.labels, strict=True),
            zip(parse.heads, parse.labels, strict=True),
            strict=True,
        )
    )
    return 100 * right / sum(len(tree.forms) for tree in gold)
