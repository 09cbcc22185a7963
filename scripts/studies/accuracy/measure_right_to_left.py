"""Evaluate parsers that read from right to left and others: each separately, and together by votes.

    python scripts/studies/accuracy/measure_right_to_left.py --treebank dev.conllu \\
        --left-to-right runs/1/model runs/2/model runs/3/model --right-to-left runs/4/model

Parsers that read from right to left were trained on mirrored sentences (scripts/treebank/mirror_treebank.py).
Their trees are mirrored back. Several parsers together find the projective tree with the greatest sum (Sagae
& Lavie 2006) of:

- votes: 1 for each parser with the arc;
- weighted votes: the probability that the parser gives its arc;
- scorers: the mean log probability of the scorers, plus the share of the parsers that had the arc before
  reparsing, times the mean of their bonuses. This is what the program does with one parser.

A word's label is the one with the most votes, or the greatest sum of probabilities, among the parsers with
its arc, or else among all. "ensemble" is the program's own ensemble of parsers from left to right, whose
transitions have common scores. If several groups of parsers have the same kinds of members, up to three of
them are used, and the figures are means. The script prints a line of JSON: LAS, and the differences to the
ensemble of as many parsers from left to right, with 95 % intervals (paired bootstrap over sentences).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from parser.models.network_model import load_network

sys.path.insert(0, str(Path(__file__).parents[2] / "treebank"))
sys.path.insert(0, str(Path(__file__).parent))

from compare_over_treebanks import counts_of, gain
from measure_arc_scorer import opinions_of
from mirror_treebank import mirrored, mirrored_heads

from parser.config.data_folder import data_path
from parser.evaluation.scores import score
from parser.models.loading import ModelChoice, load_models
from parser.models.network_model import NetworkModel
from parser.parsing.eisner import is_projective_tree, projective_trees
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.reparsing import MAX_WORDS, with_bonus
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

Floats = NDArray[np.floating]
FEWEST, GROUPS = 3, 3
"""The least number of members that parse together, and the greatest number of groups."""
ROOT_LABEL = "root"


class Opinion(NamedTuple):
    """A parser's results for a sentence, with words in order from left to right."""

    tree: ParsedTree
    """The tree with probabilities."""
    own_heads: tuple[int, ...]
    """The heads before reparsing."""
    log_probabilities: Floats
    """[n, n + 1] Log probabilities of the heads of each word, by the arc scorer."""
    bonus: float


Weight = Callable[[Opinion], Sequence[float]]
"""Returns the weight of an opinion's vote for each arc of its tree."""


def equal(opinion: Opinion) -> list[float]:
    return [1.0] * len(opinion.tree.heads)


def probable(opinion: Opinion) -> tuple[float, ...]:
    assert opinion.tree.probabilities
    return opinion.tree.probabilities


def votes(opinions: Sequence[Opinion], weight: Weight) -> Floats:
    """[n, n + 1] The sum of the votes for each arc."""
    words = np.arange(len(opinions[0].tree.heads))
    sums = np.zeros((len(words), len(words) + 1))
    for opinion in opinions:
        sums[words, opinion.tree.heads] += weight(opinion)
    return sums


def scorers(opinions: Sequence[Opinion]) -> Floats:
    """[n, n + 1] The sum of scorers' log probabilities and the parsers' votes for each arc."""
    logs: Floats = np.mean([opinion.log_probabilities for opinion in opinions], 0, dtype=float)
    before = [each._replace(tree=each.tree._replace(heads=each.own_heads)) for each in opinions]
    return logs + votes(before, equal) / len(opinions) * mean(each.bonus for each in opinions)


def tree_of(scores: Floats) -> tuple[int, ...]:
    """The heads of the projective tree with the greatest sum. scores: [n, n + 1]"""
    heads = scores.argmax(1).tolist()
    if not is_projective_tree(heads):
        [heads] = projective_trees(scores[None], np.array([len(scores)]))
    return tuple(heads)


def labelled(heads: Sequence[int], opinions: Sequence[Opinion], weight: Weight) -> ParsedTree:
    """The tree with the labels that have the most votes."""
    labels = []
    for word, head in enumerate(heads):
        supports: dict[tuple[bool, str], float] = {}
        for opinion in opinions:
            label, voted = opinion.tree.labels[word], opinion.tree.heads[word]
            if (label == ROOT_LABEL) == (head == 0):
                key = voted == head, label  # those with this arc come first
                supports[key] = supports.get(key, 0.0) + weight(opinion)[word]
        best = max(supports, key=lambda key: (key[0], supports[key]), default=None)
        labels.append(best[1] if best else ROOT_LABEL if head == 0 else "dep")
    return ParsedTree(tuple(heads), tuple(labels))


WAYS: dict[str, tuple[Callable[[Sequence[Opinion]], Floats], Weight]] = {
    "votes": (lambda opinions: votes(opinions, equal), equal),
    "weighted votes": (lambda opinions: votes(opinions, probable), probable),
    "scorers": (scorers, probable),
}
"""Ways to combine parsers: the function that sums scores for trees, and the weights for labels."""


def opinions_from_left(model: NetworkModel, sentences: Sequence[Sentence]) -> list[Opinion]:
    arcs = model.settings.network.arcs
    if arcs is None or arcs.bonus is None:
        raise SystemExit("a model has no scorer of arcs with a bonus (parser.network.arcs)")
    trees = parse(model, sentences, options=ParseOptions(probabilities=True))
    before = (tree.heads for tree in parse(with_bonus(model, None), sentences))
    scored = (opinion.log_probabilities for opinion in opinions_of(model, sentences))
    return [Opinion(*of_sentence, arcs.bonus) for of_sentence in zip(trees, before, scored, strict=True)]


def mirrored_opinion(opinion: Opinion) -> Opinion:
    tree, logs = opinion.tree, opinion.log_probabilities
    return opinion._replace(
        tree=tree._replace(
            heads=mirrored_heads(tree.heads), labels=tree.labels[::-1], probabilities=probable(opinion)[::-1]
        ),
        own_heads=mirrored_heads(opinion.own_heads),
        log_probabilities=np.concatenate([logs[::-1, :1], logs[::-1, :0:-1]], axis=1),
    )


def opinions_from_right(model: NetworkModel, sentences: Sequence[Sentence]) -> list[Opinion]:
    return [
        mirrored_opinion(opinion)
        for opinion in opinions_from_left(model, [mirrored(each) for each in sentences])
    ]


def groups(left: int, of_left: int, right: int, of_right: int) -> list[tuple[list[int], list[int]]]:
    """Up to `GROUPS` choices of `of_left` numbers below `left` and `of_right` numbers below `right`."""
    choices = [
        (
            sorted((turn + step) % left for step in range(of_left)),
            sorted((turn + of_left + step) % right for step in range(of_right)),
        )
        for turn in range(GROUPS)
    ]
    return [choice for index, choice in enumerate(choices) if choice not in choices[:index]]


def together(members: Sequence[Sequence[Opinion]], way: str) -> list[ParsedTree]:
    """The joint trees of several parsers. members: for each parser, its opinions on all sentences."""
    sums, weight = WAYS[way]
    return [
        labelled(tree_of(sums(of_sentence)), of_sentence, weight)
        for of_sentence in zip(*members, strict=True)
    ]


def measure(
    gold: Sequence[Sentence], from_left: Sequence[Path], from_right: Sequence[Path]
) -> dict[str, dict[str, object]]:
    """LAS, and differences to ensembles with intervals, by the names of combinations."""
    left = [opinions_from_left(load_network(path, torch.device("cpu")), gold) for path in from_left]
    right = [opinions_from_right(load_network(path, torch.device("cpu")), gold) for path in from_right]
    parsed = {
        name: [[opinion.tree for opinion in of_parser] for of_parser in members]
        for name, members in (("1 from left", left), ("1 from right", right))
    }
    ensembles = {}
    for size in range(FEWEST, len(left) + 1):
        ensemble = parse(load_models(ModelChoice(tuple(from_left[:size]))), gold)
        parsed[f"{size} from left: ensemble"] = [ensemble]
        for of_right, way in product(range(min(len(right), size - 1) + 1), WAYS):
            members = f"{size - of_right} from left" + (f", {of_right} from right" if of_right else "")
            name = f"{members}: {way}"
            ensembles[name] = ensemble
            parsed[name] = [
                together([*(left[one] for one in some), *(right[one] for one in others)], way)
                for some, others in groups(len(left), size - of_right, len(right), of_right)
            ]
    las = {
        name: round(mean(score(gold, of_parser).las for of_parser in trees), 2)
        for name, trees in parsed.items()
    }
    differences = {
        name: [
            round(part, 2)
            for part in gain([counts_of(gold, [(ensemble, of_parser) for of_parser in parsed[name]])])
        ]
        for name, ensemble in ensembles.items()
    }
    return {"las": dict(las), "differences": dict(differences)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--treebank", required=True)
    for direction in ("left-to-right", "right-to-left"):
        arguments.add_argument(f"--{direction}", nargs="+", type=Path, required=True, metavar="MODEL")
    given = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    gold = [sentence for sentence in read_treebank(data_path(given.treebank)) if len(sentence) <= MAX_WORDS]
    measured = measure(gold, given.left_to_right, given.right_to_left)
    print(json.dumps({"treebank": Path(given.treebank).name, **measured}))


if __name__ == "__main__":
    main()
