"""Measure how fast treebanks are read, compared with the reader of the package conllu.

Both read the same file as a stream, in turns: this program validates it and makes sentences, conllu makes its
TokenLists. Times are processor times. The ratio is the median over the turns, with its 95 % interval.

python scripts/studies/text/measure_reading.py TREEBANK.conllu [--turns 15]
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import conllu

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import compare, per_second

from parser.treebank.conllu import stream_sentences


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("treebank")
    arguments.add_argument("--turns", type=int, default=15)
    given = arguments.parse_args()
    readers = {"this program": read, f"conllu {version('conllu')}": read_by_conllu}
    speeds = {
        name: partial(per_second, partial(reader, given.treebank), time.process_time)
        for name, reader in readers.items()
    }
    compare(speeds, given.turns, "this program over conllu", warm_up=1)


def read(treebank: str) -> int:
    """Read a treebank. Returns the number of sentences."""
    return sum(1 for _ in stream_sentences(treebank))


def read_by_conllu(treebank: str) -> int:
    with open(treebank, encoding="utf-8") as file:
        return sum(1 for _ in conllu.parse_incr(file))


if __name__ == "__main__":
    main()
