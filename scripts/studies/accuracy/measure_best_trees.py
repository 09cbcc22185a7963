"""Evaluate the best trees of a beam search, and the scores by which the first one can be chosen.

    python scripts/studies/accuracy/measure_best_trees.py MODEL TEST.conllu --trees 5

The script prints a row of JSON with the CoNLL 2018 LAS of several choices of a tree for each sentence:

- `greedy`: the tree of the parser alone, without search and scorers; `parse`: the tree of `parse`;
- `first`: the first tree of `parse --trees`; `best`: the tree among these that is most like the gold tree;
- `by_parser`, `by_scorer`: the first of the same trees by the parser's mean log probability of transitions
  alone, and by the scorer's of arcs alone, if there is a scorer; `first` is chosen by the sum of both.
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
from parser.models.network_model import NetworkModel, load_network
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.reparsing import MAX_WORDS
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

Trees = Sequence[Sequence[ParsedTree]]
"""Several trees of each sentence."""
Value = Callable[[int, ParsedTree], float]
"""Returns the value of a tree, given the number of its sentence and the tree."""


def las(sentences: Sequence[Sentence], trees: Sequence[ParsedTree]) -> float:
    return round(score(sentences, trees).las, 2)


def las_of_best(sentences: Sequence[Sentence], trees: Trees, value: Value) -> float:
    """The LAS of the trees with the greatest value in each sentence."""
    numbered = enumerate(trees)
    return las(sentences, [max(several, key=partial(value, number)) for number, several in numbered])


def several(model: NetworkModel, sentences: Sequence[Sentence], count: int) -> Trees:
    parsed = parse(model, sentences, options=ParseOptions(trees=count))
    return [(tree, *tree.others) for tree in parsed]


def measure(model: NetworkModel, sentences: Sequence[Sentence], count: int) -> dict[str, float]:
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
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("treebank")
    arguments.add_argument("--trees", type=int, default=5)
    options = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    model = load_network(options.model, torch.device("cpu"))
    sentences = [one for one in read_treebank(options.treebank) if len(one) <= MAX_WORDS]
    print(json.dumps(measure(model, sentences, options.trees)))


if __name__ == "__main__":
    main()
