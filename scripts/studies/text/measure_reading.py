"""How fast treebanks are read, beside the reader of the package conllu.

Both read the same file as a stream, in turns: this program validates it and makes sentences, conllu makes its
TokenLists. Times are those of the processor. The ratio is the median over the turns, with its 95 % interval.

python scripts/studies/text/measure_reading.py TREEBANK.conllu [--turns 15]
"""

from __future__ import annotations

import argparse
import time
from importlib.metadata import version

import conllu

from parser.speed.measuring.statistics import median_of, ratio_of
from parser.treebank.conllu import stream_sentences


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("treebank")
    arguments.add_argument("--turns", type=int, default=15)
    given = arguments.parse_args()
    own, others = measured(given.treebank, given.turns)
    print(f"this program: {median_of(own).value:,.0f} sentences/s")
    print(f"conllu {version('conllu')}: {median_of(others).value:,.0f} sentences/s")
    print(f"this program over conllu: {ratio_of(own, others, interleaved=True)}")


def measured(treebank: str, turns: int) -> tuple[list[float], list[float]]:
    """Sentences per second by this program, and by conllu, in each turn but a first one that warms up."""
    own: list[float] = []
    others: list[float] = []
    for turn in range(turns + 1):
        began = time.process_time()
        sentences = sum(1 for _ in stream_sentences(treebank))
        between = time.process_time()
        with open(treebank, encoding="utf-8") as file:
            token_lists = sum(1 for _ in conllu.parse_incr(file))
        ended = time.process_time()
        if turn:
            own.append(sentences / (between - began))
            others.append(token_lists / (ended - between))
    return own, others


if __name__ == "__main__":
    main()
