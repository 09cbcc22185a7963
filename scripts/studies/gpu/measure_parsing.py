"""A stage: how fast the model that ships parses: 20,000 sentences by `stack-parser parse`, and single ones.

Single sentences are parsed one after the other on the GPU and on the CPU, where the program is faster for few
sentences: the ratio tells which device `parser.load` should take.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.runner import report
from gpu_visit.training import EWT
from measuring import parsed_per_second, write_sentences

import parser
from parser.config.data_folder import data_path
from parser.treebank.conllu import stream_sentences

MODEL = Path("models/english-ewt.stackparser")
SENTENCES, SINGLE = 20_000, 200
REHEARSED_SENTENCES, REHEARSED_SINGLE = 40, 4
RUNS = 2
"""The first run also reads the model's file into the system's memory."""


def main(rehearse: bool) -> None:
    there = "${PARSER_DATA}/" + EWT.format("train") if os.environ.get("PARSER_DATA") else ""
    treebank = data_path(there or "data/quickstart/train.conllu")
    torch.set_num_threads(1)  # as the command does
    device = "cpu" if rehearse else "cuda"  # this stage starts processes, where nothing is simulated
    for name in ("cpu", device):
        _report_single(treebank, name, REHEARSED_SINGLE if rehearse else SINGLE)
    sentences = REHEARSED_SENTENCES if rehearse else SENTENCES
    with TemporaryDirectory(prefix="visit-") as folder:
        text = Path(folder) / "text.conllu"
        write_sentences(treebank, sentences, text)
        for run in range(1 if rehearse else RUNS):
            speed = parsed_per_second(MODEL, text, "--device", device)
            report(run=run + 1, sentences=sentences, device=device, sentences_per_second=speed)


def _report_single(treebank: str, device: str, count: int) -> None:
    model = parser.load(MODEL, device=device)
    texts = [sentence.forms for sentence in islice(stream_sentences(treebank), count)]
    for words in texts[:4]:
        model.parse(words)
    seconds = []
    for words in texts:
        began = time.perf_counter()
        model.parse(words)
        seconds.append(time.perf_counter() - began)
    report(single_sentences=count, device=device, median_milliseconds=round(1000 * median(seconds), 3))


if __name__ == "__main__":
    main(rehearse="--rehearse" in sys.argv)
