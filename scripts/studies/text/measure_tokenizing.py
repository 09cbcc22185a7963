"""Measure the cost of finding sentences and words in raw text, next to parsing them with tags and lemmas.

Both are measured in one process and in turns, on the text of a treebank: from text to sentences, and from
sentences to lines of CoNLL-U. The ratio is the median over the turns, with its 95 % interval.

python scripts/studies/text/measure_tokenizing.py MODEL TREEBANK.conllu [--turns 7]
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch

from parser.models.loading import load_model

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import compare, per_second

from parser.parsing.engine import parse_stream
from parser.parsing.part_parser import output_of
from parser.system.pytorch import tune_process
from parser.text.of_model import text_reader
from parser.text.reading import TextPart, read_parts
from parser.text.treebank_text import treebank_text
from parser.treebank.conllu import read_treebank


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("treebank")
    arguments.add_argument("--turns", type=int, default=7)
    given = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = load_model(given.model)
    reader = text_reader(given.model, "raw")
    text = [TextPart(0, treebank_text(read_treebank(given.treebank)))]
    sentences = list(read_parts(reader, text))

    def parse() -> int:
        parsed = parse_stream(model, sentences)
        return len([output_of(sentence, tree, tags="missing", deps="keep") for sentence, tree in parsed])

    def tokenize() -> int:
        return len(list(read_parts(reader, text)))

    # For equally many sentences, the ratio of the times is the inverse ratio of the speeds.
    both = {"parsed": partial(per_second, parse), "tokenized": partial(per_second, tokenize)}
    compare(both, given.turns, "time of tokenizing over time of parsing", warm_up=1)


if __name__ == "__main__":
    main()
