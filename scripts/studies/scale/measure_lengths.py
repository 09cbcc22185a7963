"""Measure the time of reading, checking, preparing and parsing by length and number of sentences.

python scripts/studies/scale/measure_lengths.py --words 1000 4000 16000 --sentences 1000000
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import torch

from parser.cli import main as stack_parser
from parser.models.model import Model
from parser.models.settings import ParserSettings
from parser.networks.replay.examples import Examples
from parser.networks.settings import NetworkSettings
from parser.parsing.engine import parse_stream
from parser.system.machine import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import projectivized
from parser.treebank.vocabulary import Vocabulary

Shape = Callable[[int, int], int]
"""(word, number of words) -> head of the word."""

SHAPES: dict[str, Shape] = {
    "chain": lambda word, words: word - 1,
    "chain, reversed": lambda word, words: word + 1 if word < words else 0,
    "fan": lambda word, words: 0 if word == 1 else 1,
    "balanced": lambda word, words: word // 2,
    "balanced, in order": lambda word, words: _middle(word, words),
    "crossing": lambda word, words: max(0, word - 2) if word != 2 else 1,
    "two chains": lambda word, words: word - 1 if word <= words // 2 else word - words // 2,
}


def _middle(word: int, words: int) -> int:
    """The head in a balanced binary search tree, which is projective."""
    first, last, head = 1, words, 0
    while (middle := (first + last) // 2) != word:
        first, last, head = (middle + 1, last, middle) if word > middle else (first, middle - 1, middle)
    return head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, nargs="*", default=[1000, 4000, 16000, 50000])
    parser.add_argument(
        "--sentences", type=int, nargs="*", default=[1_000_000], help="numbers of one-word sentences"
    )
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--limit", type=float, default=120.0, help="time limit of each part in seconds")
    options = parser.parse_args()
    tune_process()
    print(f"{'':<28}{'words':>9}" + "".join(f"{name:>10}" for name in PARTS))
    is_good = True
    for shape in options.shapes:
        for words in options.words:
            is_good &= _times(f"one sentence, {shape}", words, _tree(words, SHAPES[shape]), options.limit)
    for sentences in options.sentences:
        trees = _tree(1, SHAPES["chain"]) * sentences
        is_good &= _times("sentences of one word", sentences, trees, options.limit)
    sys.exit(not is_good)


def _tree(words: int, shape: Shape) -> str:
    lines = []
    for word in range(1, words + 1):
        head = shape(word, words)
        lines.append(f"{word}\tw{word % 100}\t_\tX\t_\t_\t{head}\t{'dep' if head else 'root'}\t_\t_\n")
    return "".join(lines) + "\n"


def _prepare(path: str) -> None:
    trees = [projectivized(tree) for tree in read_treebank(path)]
    model = _model()
    Examples.of(model.inventory, model.vocabulary, trees)


def _parse(path: str) -> None:
    for _ in parse_stream(_model(), read_treebank(path)):
        pass


def _check(path: str) -> None:
    with redirect_stdout(None):
        sys.exit(stack_parser(["check", path, "--transitions"]))


PARTS: dict[str, Callable[[str], object]] = {
    "read": read_treebank,
    "check": _check,
    "prepare": _prepare,
    "parse": _parse,
}
"""The measured parts; each includes reading its input."""


def _model() -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.conllu"
        path.write_text(_tree(200, SHAPES["balanced"]), encoding="utf-8")
        vocabulary = Vocabulary.build(read_treebank(str(path)), ["form", "upos"])
    torch.manual_seed(1)
    model = Model.build(
        ParserSettings(network=NetworkSettings(hidden_size=32, layers=1)), vocabulary, torch.device("cpu")
    )
    model.network.eval()
    return model


def _times(name: str, words: int, text: str, limit: float) -> bool:
    """Print the times of all parts. Returns whether all parts finished within the limit."""
    is_good = True
    print(f"{name:<28}{words:>9,}", end="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.conllu"
        path.write_text(text, encoding="utf-8")
        for seconds in _seconds(str(path), limit):
            is_good &= seconds[0].isdigit()
            print(f"{seconds:>10}", end="", flush=True)
    print()
    return is_good


def _seconds(path: str, limit: float) -> Iterator[str]:
    """The time of each part, in a separate process, so that parts do not affect each other."""
    for part in PARTS.values():
        process = multiprocessing.get_context("fork").Process(target=part, args=(path,))
        began = time.monotonic()
        process.start()
        process.join(limit)
        if process.is_alive():
            process.kill()
            yield f"> {limit:g}"
        else:
            yield "failed" if process.exitcode else f"{time.monotonic() - began:.2f}"
        process.join()


if __name__ == "__main__":
    main()
