"""How good the best trees of a beam search are, and by which score the first one should be chosen.

    python scripts/studies/accuracy/measure_best_trees.py MODEL TEST.conllu --trees 5

Prints a row of JSON, with the LAS of CoNLL 2018 of several trees of each sentence:

- `greedy`: that of the parser alone, without search and scorers; `parse`: that of `parse`;
- `first`: the first of `parse --trees`; `best`: the one of these that is most like the gold tree;
- `by_parser`, `by_scorer`: the first of the same trees by the parser's mean log probability of transitions
  alone, and by the scorer's of arcs alone, if there is a scorer; `first` is that by the sum of both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from measure_arc_scorer import opinions_of, without_scorers

from parser.evaluation.scores import score
from parser.parsing.model import Model
from parser.parsing.parse import parse
from parser.parsing.parse_options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.reparsing import MAX_WORDS
from parser.system.machine import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

Trees = Sequence[Sequence[ParsedTree]]
"""Of each sentence."""
Value = Callable[[int, ParsedTree], float]
"""Of a sentence, by its number, and one of its trees."""


def las(sentences: Sequence[Sentence], trees: Sequence[ParsedTree]) -> float:
    return round(score(sentences, trees).las, 2)


def las_of_best(sentences: Sequence[Sentence], trees: Trees, value: Value) -> float:
    """Of the tree of each sentence that has the greatest value."""
    found = enumerate(trees)
    return las(sentences, [max(several, key=partial(value, number)) for number, several in found])


def several(model: Model, sentences: Sequence[Sentence], count: int) -> Trees:
    found = parse(model, sentences, options=ParseOptions(trees=count))
    return [(tree, *tree.others) for tree in found]


def measure(model: Model, sentences: Sequence[Sentence], count: int) -> dict[str, float]:
    parser, trees = without_scorers(model), several(model, sentences, count)
    by_parser = parse(parser, sentences, options=ParseOptions(trees=count))
    row = {
        "trees": count,
        "trees_of_a_sentence": round(sum(map(len, trees)) / len(trees), 2),
        "greedy": las(sentences, parse(parser, sentences)),
        "parse": las(sentences, parse(model, sentences)),
        "first": las(sentences, [first for first, *_ in trees]),
        "best": las_of_best(sentences, trees, lambda number, tree: score([sentences[number]], [tree]).las),
        "by_parser": las(sentences, by_parser),
    }
    if model.network.arcs:
        opinions = opinions_of(model, sentences)

        def by_scorer(number: int, tree: ParsedTree) -> float:
            return float(opinions[number].of_arcs(tree.heads).mean())

        row["by_scorer"] = las_of_best(sentences, trees, by_scorer)
    return row


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("model", type=Path)
    arguments.add_argument("treebank")
    arguments.add_argument("--trees", type=int, default=5)
    options = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = Model.load(options.model, torch.device("cpu"))
    sentences = [one for one in read_treebank(options.treebank) if len(one) <= MAX_WORDS]
    print(json.dumps(measure(model, sentences, options.trees)))


if __name__ == "__main__":
    main()
