"""The parser over BiLSTM features in DyNet, compared with ours: equal weights, batches, decisions and steps.

python scripts/studies/peers/dynet_feature_parser.py runs/peers/problems/parser --dynet-autobatch 1

The decisions are made by our program's code, in NumPy, since they are not part of the comparison. The script
prints the loss of the first batch, next to our program's, and sentences per second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import dynet as dy
import numpy as np
from dynet_training import BiLSTM, Weights, arguments_of, time_training
from same_work import Problem

sys.path.insert(0, str(Path(__file__).parents[3]))  # modules of the program that need only NumPy

from parser.speed.tasks.feature_parser.dynamic_oracle import HINGE_MARGIN, Decisions, FeatureSentence


def sentences_of(problem: Problem) -> list[FeatureSentence]:
    lists = [problem.ragged(name) for name in ("words", "tags", "heads", "labels")]
    return [
        FeatureSentence(*(part.tolist() for part in parts), chances)
        for *parts, chances in zip(*lists, problem.ragged("chances"), strict=True)
    ]


class FeatureParser:
    def __init__(self, weights: Weights, problem: Problem, builder: str):
        self._labels, self._explore = problem.number("label_count"), float(problem.array("explore"))
        self._words, self._tags = weights.table("words.weight"), weights.table("tags")
        self._reader = BiLSTM(weights, "reader", builder)
        self._nothing = weights.of_array(weights.array("nothing")[0])
        halves = zip(
            *(np.split(weights.array(f"middle.{part}"), 2) for part in ("bias", "weight")), strict=True
        )
        self._middles = [tuple(map(weights.of_array, half)) for half in halves]
        self._outputs = [weights.linear(name) for name in ("kinds", "labelled")]

    def loss(self, sentences: Sequence[FeatureSentence]) -> dy.Expression:
        vectors = [[*self._vectors(sentence), self._nothing.expr()] for sentence in sentences]
        decisions = Decisions(sentences, self._labels, self._explore)
        losses = []
        for rows, words in decisions:
            scores = [
                self._score(dy.concatenate([vectors[row][position] for position in positions]))
                for row, positions in zip(rows.tolist(), words.tolist(), strict=True)
            ]
            scores[-1][-1].forward()  # and all before it
            values = np.array(
                [np.concatenate([part.npvalue() for part in parts]) for parts in scores], np.float64
            )
            chosen = decisions.take(values)
            pairs = zip(chosen.places, chosen.pairs.tolist(), strict=True)
            losses += [self._hinge(*scores[position], pair) for position, pair in pairs]
        return dy.esum(losses)

    def _vectors(self, sentence: FeatureSentence) -> list[dy.Expression]:
        pairs = zip(sentence.words, sentence.tags, strict=True)
        states = self._reader.read(
            [dy.concatenate([self._words[word], self._tags[tag]]) for word, tag in pairs]
        )
        return [dy.concatenate([*pair]) for pair in zip(*states, strict=True)]

    def _score(self, state: dy.Expression) -> list[dy.Expression]:
        """The scores of kinds of transitions, and of transitions with labels."""
        return [
            dy.affine_transform([*output, dy.tanh(dy.affine_transform([*middle, state]))])
            for middle, output in zip(self._middles, self._outputs, strict=True)
        ]

    def _hinge(self, kinds: dy.Expression, labelled: dy.Expression, pair: int) -> dy.Expression:
        """The hinge loss. pair: correct transition * number of labelled transitions + incorrect one."""
        right, wrong = divmod(pair, 1 + 2 * self._labels)

        def total(transition: int) -> dy.Expression:
            return kinds[(transition + self._labels - 1) // self._labels] + labelled[transition]

        return total(wrong) - total(right) + HINGE_MARGIN


if __name__ == "__main__":
    given = arguments_of(__doc__)
    problem = Problem(given.problem)
    weights = Weights(problem)
    parser = FeatureParser(weights, problem, given.builder)
    time_training(parser.loss, sentences_of(problem), weights, given)
