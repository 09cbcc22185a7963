"""Measure the value of partly known trees: training without some arcs, compared with fewer sentences.

    python scripts/studies/accuracy/measure_partial_trees.py configs/ud-fast.yaml --run runs/partial/ewt

The script removes a random share of the words' heads and labels from the training file, and trains on the
rest (`treebank.partial`). For comparison, it trains on random sentences with as many words in total as were
known, in more epochs for as many steps, and on the whole file. It prints a line of JSON for each training
with the scores on dev and test. Finished trainings are kept below the folder, so that the same command
continues. `--set` changes the config of all trainings.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from measure_selection import trained, uas_and_las

from parser.config.data_folder import data_path
from parser.system.pytorch import tune_process
from parser.training.config import Config, read_config
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_tree
from parser.treebank.partial_trees import with_known
from parser.treebank.sentence import Sentence

WITHOUT = "sentences", "arcs"
"""The two kinds of data that are left out."""


def without_arcs(sentences: Sequence[Sentence], share: float, seed: int) -> list[Sentence]:
    """The sentences with `_` in HEAD and DEPREL of the given share of words."""
    draw = random.Random(seed)
    known = (with_known(sentence, [draw.random() >= share for _ in sentence.forms]) for sentence in sentences)
    return [replace(one, lines=with_tree(one, one.heads, one.labels)) for one in known]


def without_sentences(sentences: Sequence[Sentence], share: float, seed: int) -> list[Sentence]:
    """The sentences without random ones that contain the given share of all words."""
    left, chosen = (1 - share) * sum(map(len, sentences)), []
    for sentence in random.Random(seed).sample(sentences, len(sentences)):
        if left <= 0:
            break
        chosen.append(sentence)
        left -= len(sentence)
    return chosen


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path, help="of the trainings; treebank.train is one file")
    arguments.add_argument("--run", type=Path, required=True, help="folder of all trainings")
    arguments.add_argument("--shares", type=float, nargs="+", default=[1 / 3, 1 / 2], help="that is left out")
    arguments.add_argument("--without", nargs="+", choices=WITHOUT, default=list(WITHOUT))
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = arguments.parse_args()
    tune_process()
    config: Config = read_config(given.config, given.set)
    [path] = config.treebank.train_files
    whole = read_treebank(data_path(path))[: config.treebank.train_sentences]

    def measure(without: str, share: float, seed: int) -> None:
        leave_out = without_arcs if without == "arcs" else without_sentences
        sentences = leave_out(whole, share, seed)
        epochs = round(config.training.epochs * len(whole) / len(sentences))
        changes = [
            f"training.seed={seed}",
            f"training.epochs={epochs}",
            "treebank.train_sentences=null",
            f"treebank.partial={without == 'arcs'}",
        ]
        folder = given.run / f"{without}-{share:.2f}-{seed}"
        result = trained(given.config, [*given.set, *changes], sentences, folder)
        row = {"without": without, "share": round(share, 2), "seed": seed, "sentences": len(sentences)}
        print(json.dumps(row | uas_and_las(result) | {"seconds": result["seconds"]}), flush=True)

    for seed in range(1, given.seeds + 1):
        measure("sentences", 0.0, seed)
        for share in given.shares:
            for without in given.without:
                measure(without, share, seed)


if __name__ == "__main__":
    main()
