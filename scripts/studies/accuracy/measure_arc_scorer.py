"""The parser's trees, those of its scorers, those of both together, and how well they know their errors.

    python scripts/studies/accuracy/measure_arc_scorer.py runs/*/model --treebank dev.conllu

With --crossing the trees of both are among all trees, not only projective ones (Chu & Liu 1965, Edmonds 1967;
needs `pip install ufal.chu_liu_edmonds`), and have the labels of the parser.

Of the probabilities of the parser's own arcs, the calibration error is the mean distance between probability
and share of right heads, over twenty groups of equally many arcs; the area is that under the curve by which
wrong heads are found, the least probable first (0.5: by chance). Sentences that are too long for the scorers
are left out of everything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from parser.evaluation.calibration import area_of_errors, calibration_error
from parser.evaluation.scores import Scores
from parser.parsing.calibration import with_calibration
from parser.parsing.model import Model
from parser.parsing.parse import parse
from parser.parsing.parse_options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.reparsing import MAX_WORDS, Reparser, SecondOpinion, with_bonus
from parser.system.machine import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

Floats = NDArray[np.float64]
BONUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
GROUPS = 20
BATCH_SIZE = 256


def without_scorers(model: Model) -> Model:
    network = deepcopy(model.network)
    network.arcs = network.labels = None
    return replace(model, network=network)


def opinions_of(model: Model, sentences: Sequence[Sentence]) -> list[SecondOpinion]:
    reparser = Reparser.of(model)
    assert reparser
    found: list[SecondOpinion] = []
    for start in range(0, len(sentences), BATCH_SIZE):
        tokens = model.vocabulary.encode_tokens(sentences[start : start + BATCH_SIZE])
        with torch.inference_mode():
            words, _ = model.network.encode_distinct(tokens)
            own = reparser.opinions(tokens.lengths, [words])
            found += [opinion for opinion in own if opinion]  # all, as `main` has left out the others
    return found


def chu_liu_edmonds(opinion: SecondOpinion, heads: Sequence[int], bonus: float) -> tuple[int, ...]:
    """The tree of greatest sum, with one word below ROOT; arcs may cross."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds as best_tree

    words = np.arange(len(heads))
    scores = np.full((len(words) + 1, len(words) + 1), np.nan)  # [dependent, head]
    scores[1:] = np.where(np.isfinite(opinion.log_probabilities), opinion.log_probabilities, -1e4)
    scores[1 + words, heads] += bonus
    scores[1:, 0] -= 1e6  # so that ROOT has as few dependents as it can, which is one
    scores[1 + words, 1 + words] = np.nan
    found, _ = best_tree(scores)
    return tuple(int(head) for head in found[1:])


def scores_of(sentences: Sequence[Sentence], trees: Sequence[ParsedTree]) -> str:
    scores = Scores()
    for sentence, tree in zip(sentences, trees, strict=True):
        scores.add(sentence, tree.heads, tree.labels)
    return f"UAS {scores.uas:.2f}  LAS {scores.las:.2f}"


def measure(model: Model, sentences: Sequence[Sentence], crossing: bool) -> None:
    """Print all figures of a model."""
    own = parse(with_calibration(without_scorers(model), None), sentences, options=ParseOptions(True))
    opinions = opinions_of(model, sentences)
    print(f"parser alone: {scores_of(sentences, own)}")
    for bonus in BONUSES:
        name = f"both, bonus {bonus:g}" if bonus else "scorers alone"
        print(f"{name}: {scores_of(sentences, parse(with_bonus(model, bonus), sentences))}")
        if crossing:
            heads = (
                chu_liu_edmonds(*pair, bonus) for pair in zip(opinions, (t.heads for t in own), strict=True)
            )
            trees = [tree._replace(heads=found) for tree, found in zip(own, heads, strict=True)]
            print(f"{name}, crossing: {scores_of(sentences, trees)}")
    is_right = np.concatenate([np.equal(s.heads, tree.heads) for s, tree in zip(sentences, own, strict=True)])
    of_parser = np.concatenate([tree.probabilities for tree in own if tree.probabilities])
    of_scorer = np.exp(
        np.concatenate([
            opinion.log_probabilities[np.arange(len(tree.heads)), tree.heads]
            for opinion, tree in zip(opinions, own, strict=True)
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
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--treebank", required=True, type=Path)
    arguments.add_argument("--crossing", action="store_true", help="trees in which arcs may cross, too")
    given = arguments.parse_args()
    tune_process()
    whole = read_treebank(str(given.treebank))
    sentences = [sentence for sentence in whole if len(sentence) <= MAX_WORDS]
    for path in given.models:
        try:
            model = Model.load(path, torch.device("cpu"))
        except ValueError as error:
            sys.exit(str(error))
        if model.network.arcs is None:
            sys.exit(f"{path}: has no scorer of arcs (parser.network.arcs)")
        print(path)
        measure(model, sentences, given.crossing)


if __name__ == "__main__":
    main()
