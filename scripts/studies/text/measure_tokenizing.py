"""What finding the sentences and words of raw text costs, beside parsing them with tags and lemmas.

Both in one process and in turns, on the text of a treebank: from text to sentences, and from sentences to the
lines of CoNLL-U. The ratio is the median over the turns, with its 95 % interval.

python scripts/studies/text/measure_tokenizing.py MODEL TREEBANK.conllu [--turns 7]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from parser.parsing.model import Model
from parser.parsing.parse import parse_stream
from parser.parsing.part_parser import output_of
from parser.parsing.text_input import text_reader
from parser.speed.measuring.statistics import median_of, ratio_of
from parser.system.machine import tune_process
from parser.text.reading import TextPart, read_parts
from parser.text.treebank_text import treebank_text
from parser.treebank.conllu import read_treebank


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("model", type=Path)
    arguments.add_argument("treebank")
    arguments.add_argument("--turns", type=int, default=7)
    given = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = Model.load(given.model, torch.device("cpu"))
    reader = text_reader(given.model, "raw")
    text = [TextPart(0, treebank_text(read_treebank(given.treebank)))]
    tokenizing: list[float] = []
    parsing: list[float] = []
    for turn in range(given.turns + 1):
        began = time.perf_counter()
        sentences = list(read_parts(reader, text))
        between = time.perf_counter()
        parsed = parse_stream(model, sentences)
        lines = [output_of(sentence, tree, retag=False, deps="keep") for sentence, tree in parsed]
        ended = time.perf_counter()
        assert len(lines) == len(sentences)
        if turn:  # the first one warms up
            tokenizing.append(len(sentences) / (between - began))
            parsing.append(len(sentences) / (ended - between))
            print(f"turn {turn}: {tokenizing[-1]:,.0f} sentences/s tokenized, {parsing[-1]:,.0f} parsed")
    print(f"tokenized {median_of(tokenizing)}, parsed {median_of(parsing)} sentences/s")
    print(f"time of tokenizing over time of parsing: {ratio_of(parsing, tokenizing, True)}")


if __name__ == "__main__":
    main()
