"""`stack-parser parse`: write trees into a CoNLL file, in bounded memory."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import torch
from tqdm import tqdm

from parser.commands.options import Commands, add_model, watched
from parser.console import PROGRESS_BAR
from parser.files import atomic_text_file
from parser.machine import choose_device
from parser.parsing.model import Model
from parser.parsing.parse import parse_stream
from parser.training.interruption import interruptible
from parser.treebank.conllu import stream_sentences, with_probabilities, with_tree


def add_parse(commands: Commands) -> None:
    command = commands.add_parser("parse", help="write trees into a CoNLL file")
    add_model(command)
    command.add_argument("input", metavar="IN", help="CoNLL file, optionally .gz; - for standard input")
    command.add_argument(
        "-o", "--output", default="-", metavar="OUT", help="output file (default: standard output)"
    )
    command.add_argument(
        "--scores", action="store_true", help="write the probability of each arc and its label to MISC"
    )
    command.set_defaults(command=parse_file)


def parse_file(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model = Model.load(options.model, choose_device(options.device))
    sentences = words = 0
    began = time.monotonic()
    with interruptible(), _open_output(options.output, options.input) as output:
        sentences_read = watched(model, stream_sentences(options.input, tree=False), options.input)
        parsed = parse_stream(model, sentences_read, options.batch_size, probabilities=options.scores)
        hidden = {"disable": True} if options.output == "-" else {}
        for sentence, tree in tqdm(parsed, desc="parsing", unit=" sentences", **{**PROGRESS_BAR, **hidden}):
            if tree.probabilities:
                sentence = with_probabilities(sentence, tree.probabilities)
            output.write(with_tree(sentence, tree.heads, tree.labels))
            sentences += 1
            words += len(sentence)
    seconds = time.monotonic() - began
    speed = sentences / seconds
    print(
        f"{sentences:,} sentences, {words:,} words in {seconds:.1f} s: {speed:,.0f} sentences/s",
        file=sys.stderr,
    )


@contextmanager
def _open_output(path: str, source: str) -> Iterator[TextIO]:
    """A file that takes its name when it is complete, or standard output."""
    if path == "-":
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")  # type: ignore[union-attr]
        yield sys.stdout
        return
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise ValueError(f"{path}: output would overwrite the input while it is read; choose another name")
    with atomic_text_file(path) as file:
        yield file
