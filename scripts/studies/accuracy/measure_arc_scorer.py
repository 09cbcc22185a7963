"""Evaluate the trees of a parser, of its scorers, and of both together, and how well they detect errors.

    python scripts/studies/accuracy/measure_arc_scorer.py runs/*/model --treebank dev.conllu

With --crossing the joint trees are also searched among all trees, not only among projective ones (Chu & Liu
1965, Edmonds 1967). The scorers have learnt lifted trees (docs/treebanks.md), so the labels restore arcs of
the joint trees, as in the parser's own trees.

The calibration error of the probabilities of the parser's own arcs is the mean distance between probability
and share of correct heads, over twenty groups of equally many arcs. The area is the area under the curve by
which wrong heads are found, the least probable first (0.5: by chance). Sentences that are too long for the
scorers are left out everywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from parser.evaluation.calibration import area_of_errors, calibration_error
from parser.evaluation.scores import Scores
from parser.models.network_model import NetworkModel, load_network
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.probabilities import with_calibration
from parser.parsing.pytorch.runner import opinions
from parser.parsing.reparsing import MAX_WORDS, ArcsOfSentence, Reparser, with_bonus
from parser.runtime.arcs import SecondOpinion
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import encode_tokens

Floats = NDArray[np.float64]
BONUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
GROUPS = 20
BATCH_SIZE = 256
IMPOSSIBLE = -1e4
"""Used in place of the logarithm of 0."""


def without_scorers(model: NetworkModel) -> NetworkModel:
    network = deepcopy(model.network)
    network.arcs = network.labels = None
    of_network = model.settings.network.model_copy(update={"arcs": None})
    settings = model.settings.model_copy(update={"network": of_network})
    return replace(model, settings=settings, network=network)


def opinions_of(model: NetworkModel, sentences: Sequence[Sentence]) -> list[SecondOpinion]:
    everything: list[SecondOpinion] = []
    for start in range(0, len(sentences), BATCH_SIZE):
        tokens = encode_tokens(model.vocabulary, sentences[start : start + BATCH_SIZE])
        with torch.inference_mode():
            words, _ = model.network.encode_distinct(tokens)
            of_batch = opinions([(model.network, words)], tokens.lengths)
            everything += [
                opinion for opinion in of_batch if opinion
            ]  # all of them: `main` left out the others
    return everything


def chu_liu_edmonds(opinion: SecondOpinion, heads: Sequence[int], bonus: float) -> tuple[int, ...]:
    """The heads of the tree with the greatest sum and one word below ROOT; arcs can cross."""
    scores = np.maximum(opinion.log_probabilities.astype(float), IMPOSSIBLE)  # [dependent, head]
    scores[np.arange(len(heads)), heads] += bonus
    best = scores.argmax(1).tolist()
    if best.count(0) == 1 and nx.is_arborescence(nx.DiGraph(zip(best, range(1, len(best) + 1), strict=True))):
        return tuple(best)  # no other tree has a greater sum
    scores[:, 0] -= 1e6  # so that ROOT has as few dependents as it can, which is one
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        (head, word, score)
        for word, of_heads in enumerate(scores.tolist(), 1)
        for head, score in enumerate(of_heads)
        if head != word
    )
    head_of = {word: head for head, word in nx.maximum_spanning_arborescence(graph).edges}
    return tuple(head_of[word] for word in range(1, len(heads) + 1))


def crossing_trees(
    model: NetworkModel, opinions: Sequence[SecondOpinion], trees: Sequence[ParsedTree], bonus: float
) -> list[ParsedTree]:
    """The joint trees. Arcs that the parser did not make are labelled as in reparsing. own: its trees."""
    reparser = Reparser.of(model)
    assert reparser
    heads = [chu_liu_edmonds(*pair, bonus) for pair in zip(opinions, (t.heads for t in trees), strict=True)]
    changed = [
        np.flatnonzero(np.not_equal(t.heads, new)).tolist() for t, new in zip(trees, heads, strict=True)
    ]
    arcs = [
        ArcsOfSentence(opinion, words, [new[word] for word in words])
        for opinion, words, new in zip(opinions, changed, heads, strict=True)
    ]
    best = iter(reparser.label_scores(arcs).argmax(1).tolist())
    joint = []
    for tree, words, new in zip(trees, changed, heads, strict=True):
        labels = list(tree.labels)
        for word in words:
            labels[word] = model.vocabulary.labels.string(reparser.numbers[next(best)])
        restored, unmarked = deprojectivize(new, labels)  # as in the parser's own trees
        joint.append(tree._replace(heads=restored, labels=unmarked))
    return joint


def scores_of(sentences: Sequence[Sentence], trees: Sequence[ParsedTree]) -> str:
    scores = Scores()
    for sentence, tree in zip(sentences, trees, strict=True):
        scores.add(sentence, tree.heads, tree.labels)
    crossing = f"  crossing arcs {scores.crossing_recall:.2f}" if scores.crossing_arcs else ""
    return f"UAS {scores.uas:.2f}  LAS {scores.las:.2f}{crossing}"


def measure(model: NetworkModel, sentences: Sequence[Sentence], crossing: bool) -> None:
    """Print all results for a model."""
    trees = parse(
        with_calibration(without_scorers(model), None), sentences, options=ParseOptions(probabilities=True)
    )
    opinions = opinions_of(model, sentences)
    print(f"parser alone: {scores_of(sentences, trees)}")
    for bonus in BONUSES:
        name = f"both, bonus {bonus:g}" if bonus else "scorers alone"
        print(f"{name}: {scores_of(sentences, parse(with_bonus(model, bonus), sentences))}")
        if crossing:
            print(f"{name}, crossing: {scores_of(sentences, crossing_trees(model, opinions, trees, bonus))}")
    is_right = np.concatenate(
        [np.equal(s.heads, tree.heads) for s, tree in zip(sentences, trees, strict=True)]
    )
    of_parser = np.concatenate([tree.probabilities for tree in trees if tree.probabilities])
    of_scorer = np.exp(
        np.concatenate([
            opinion.log_probabilities[np.arange(len(tree.heads)), tree.heads]
            for opinion, tree in zip(opinions, trees, strict=True)
        ])
    )  # fmt: skip
    for name, probabilities in {
        "transitions": of_parser,
        "scorer": of_scorer,
        "mean of both": (of_parser + of_scorer) / 2,
        "geometric mean of both": np.sqrt(of_parser * of_scorer),
    }.items():
        error = calibration_error(probabilities, is_right, GROUPS)
        print(
            f"probabilities of {name}: calibration error {error:.4f}, "
            f"area of errors {area_of_errors(probabilities, is_right):.4f}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--treebank", required=True, type=Path)
    arguments.add_argument("--crossing", action="store_true", help="trees in which arcs may cross, too")
    given = arguments.parse_args()
    tune_process()
    whole = read_treebank(str(given.treebank))
    sentences = [sentence for sentence in whole if len(sentence) <= MAX_WORDS]
    for path in given.models:
        try:
            model = load_network(path, torch.device("cpu"))
        except ValueError as error:
            sys.exit(str(error))
        if model.network.arcs is None:
            sys.exit(f"{path}: has no scorer of arcs (parser.network.arcs)")
        print(path)
        measure(model, sentences, given.crossing)


if __name__ == "__main__":
    main()
