"""Measure the effect of given arcs on the other words: LAS of the free words, with and without given arcs.

    python scripts/studies/accuracy/measure_given_arcs.py MODEL TEST.conllu --share 0.5 --seed 1 --turns 5

Each word's head and label are given with a probability, the share, drawn by a generator with the seed.
Without given arcs, the same words count as free. Labels that the model does not know are not given. With
--turns the script also prints the parsing speed with given arcs over the speed without, by processor time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from parser.models.loading import load_model

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import compare, per_second

from parser.parsing.constraints import LabelChoices
from parser.parsing.engine import parse
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import BLANK, NO_HEAD, Sentence, without_subtype

KEEP = ParseOptions(keep="given", non_projective="given")


def partly_given(sentence: Sentence, share: float, choices: LabelChoices, draw: random.Random) -> Sentence:
    """The sentence with the heads and labels of some words."""
    heads, labels = [], []
    for head, label in zip(sentence.heads, sentence.labels, strict=True):
        is_given = draw.random() < share
        heads.append(head if is_given else NO_HEAD)
        labels.append(label if is_given and choices.fits(head, label) else BLANK)
    return replace(sentence, heads=tuple(heads), labels=tuple(labels))


def print_scores(
    name: str, gold: Sequence[Sentence], given: Sequence[Sentence], trees: Sequence[ParsedTree]
) -> None:
    """Print the CoNLL 2018 LAS of words whose heads are not given, and the share of given arcs kept."""
    free = right = known = kept = 0
    for one, partly, tree in zip(gold, given, trees, strict=True):
        arcs = [(head, without_subtype(label)) for head, label in zip(one.heads, one.labels, strict=True)]
        parsed = [(head, without_subtype(label)) for head, label in zip(tree.heads, tree.labels, strict=True)]
        for word, (head, label) in enumerate(zip(partly.heads, partly.labels, strict=True)):
            if head == NO_HEAD:
                free += 1
                right += arcs[word] == parsed[word]
            else:
                known += 1
                kept += tree.heads[word] == head and label in (BLANK, tree.labels[word])
    print(
        f"{name}: LAS of {free:,} free words {100 * right / free:.2f}; {kept:,} of {known:,} given ones kept"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("treebank")
    arguments.add_argument("--share", type=float, default=0.5)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--turns", type=int, default=0)
    options = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = load_model(options.model)
    gold = read_treebank(options.treebank)
    choices, draw = LabelChoices.of(model.vocabulary), random.Random(options.seed)
    given = [partly_given(sentence, options.share, choices, draw) for sentence in gold]
    for name, wanted in (("nothing given", TREE_ALONE), ("given", KEEP)):
        print_scores(name, gold, given, parse(model, given, options=wanted))

    def speed(wanted: ParseOptions) -> float:
        return per_second(lambda: len(parse(model, given, options=wanted)), time.process_time)

    if options.turns:
        work = {"given": partial(speed, KEEP), "nothing given": partial(speed, TREE_ALONE)}
        compare(work, options.turns, "given over nothing given")


if __name__ == "__main__":
    main()
