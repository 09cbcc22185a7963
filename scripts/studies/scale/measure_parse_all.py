"""Measure the memory and the speed of `Parser.parse_all` over very many sentences.

python scripts/studies/scale/measure_parse_all.py runs/quickstart/model --sentences 1000000

The sentences of a treebank are repeated. The current and the peak memory of the process are printed.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import cycle, islice
from pathlib import Path

import torch

from parser import load
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank

LINES = 10
MEBIBYTE = 1 << 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("--sentences", type=int, default=1_000_000)
    options.add_argument("--treebank", default="data/quickstart/train.conllu")
    chosen = options.parse_args()
    tune_process()
    torch.set_num_threads(1)
    parser = load(chosen.model, device="cpu")
    words = [sentence.forms for sentence in read_treebank(chosen.treebank)]
    began = time.monotonic()
    for number, _ in enumerate(parser.parse_all(islice(cycle(words), chosen.sentences)), 1):
        if number % max(1, chosen.sentences // LINES) == 0:
            seconds = time.monotonic() - began
            print(f"{number:9,} sentences, {number / seconds:6,.0f}/s, {_memory()}", flush=True)


def _memory() -> str:
    """The current and the peak memory of this process, as text."""
    page = resource.getpagesize()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"{resident / MEBIBYTE:,.0f} MiB now, {peak / MEBIBYTE:,.0f} at most"


if __name__ == "__main__":
    main()
