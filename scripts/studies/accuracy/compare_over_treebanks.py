"""The gain in LAS of one kind of model over another, averaged over treebanks, with 95 % intervals.

    python scripts/studies/accuracy/compare_over_treebanks.py \\
        --treebank UYGHUR.conllu without/1/model with/1/model without/2/model with/2/model \\
        --treebank GREEK.conllu without/3/model with/3/model

Each treebank is followed by pairs of models, such as models with equal seeds. The gain on a treebank is the
mean gain of its pairs, and the overall gain is the mean over the treebanks. The intervals are those of a
paired bootstrap over sentences: a treebank's sentences are resampled, the same ones for all of its models. So
the intervals cover the choice of sentences, but not the choice of seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parser.config.data_folder import data_path
from parser.evaluation.scores import score
from parser.evaluation.significance import Numbers, interval, resampled
from parser.models.loading import load_model
from parser.parsing.engine import parse
from parser.parsing.parsed_tree import ParsedTree
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

RESAMPLES = 10_000
Pair = tuple[Sequence[ParsedTree], Sequence[ParsedTree]]


class Gain(NamedTuple):
    """A gain with its interval, in points of LAS."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def gain(treebanks: Sequence[Numbers]) -> Gain:
    """The mean gain of the second model of each pair over the first. treebanks: see `counts_of`."""

    def mean_gain(*counts: Numbers) -> Numbers:
        """Returns [samples]. counts: [samples, sentences, pairs, parsers, 2] for each treebank."""
        right_and_all = [of_treebank.sum(1) for of_treebank in counts]
        las = [100 * both[..., 0] / both[..., 1] for both in right_and_all]  # [samples, pairs, parsers]
        return np.stack([(each[..., 1] - each[..., 0]).mean(1) for each in las]).mean(0)

    observed = mean_gain(*(counts[None] for counts in treebanks)).item()
    return Gain(observed, *interval(resampled(treebanks, mean_gain, RESAMPLES, seed=1)))


def counts_of(gold: Sequence[Sentence], pairs: Sequence[Pair]) -> Numbers:
    """[sentences, pairs, parsers, 2] The number of correct words in each sentence, and of all words."""
    by_pair = [
        [
            [score([one], [tree]).counts("las") for one, tree in zip(gold, trees, strict=True)]
            for trees in pair
        ]
        for pair in pairs
    ]
    return np.array(by_pair, np.float64).transpose(2, 0, 1, 3)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument(
        "--treebank",
        action="append",
        nargs="+",
        required=True,
        metavar="FILE",
        help="it, and pairs of models",
    )
    given = arguments.parse_args()
    tune_process()
    counts = []
    for treebank, *models in given.treebank:
        if not models or len(models) % 2:
            arguments.error(f"{treebank}: {len(models)} models are there, which are no pairs")
        gold = read_treebank(data_path(treebank))
        trees = [parse(load_model(Path(model)), gold) for model in models]
        counts.append(counts_of(gold, list(zip(trees[::2], trees[1::2], strict=True))))
        print(f"{Path(treebank).name}: {gain(counts[-1:])}")
    print(f"mean of {len(counts)} treebanks: {gain(counts)}")


if __name__ == "__main__":
    main()
