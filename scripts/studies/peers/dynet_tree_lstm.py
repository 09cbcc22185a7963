"""The binary Tree-LSTM in DyNet, compared with ours: the same weights, batches and steps.

python scripts/studies/peers/dynet_tree_lstm.py runs/peers/problems/trees --dynet-autobatch 1

The script prints the loss of the first batch, next to our program's, and trees per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import dynet as dy
import numpy as np
from dynet_training import Weights, arguments_of, time_training
from same_work import Problem


class Tree(NamedTuple):
    """A binary tree. Nodes are numbered: leaves from left to right, then inner nodes, children first."""

    words: list[int]
    labels: list[int]
    left: list[int]
    right: list[int]


def trees_of(problem: Problem) -> list[Tree]:
    parts = [problem.ragged(name) for name in Tree._fields]
    return [Tree(*(part.tolist() for part in tree)) for tree in zip(*parts, strict=True)]


class TreeLSTM:
    def __init__(self, weights: Weights):
        self._words = weights.table("words.weight")
        self._leaf = self._gates(weights, "leaf", 1)
        self._inner = self._gates(weights, "gates", 2)
        self._forget = [weights.linear(f"forget_{side}") for side in ("left", "right")]
        self._scores = weights.linear("scores")

    @staticmethod
    def _gates(weights: Weights, name: str, values: int) -> list[list[dy.Parameters]]:
        """The parameters of each gate: its bias, and a weight for each value that it reads."""
        biases, gates = (
            np.split(weights.array(f"{name}.bias"), 3),
            np.split(weights.array(f"{name}.weight"), 3),
        )
        return [
            [weights.of_array(part) for part in (bias, *np.split(gate, values, axis=1))]
            for bias, gate in zip(biases, gates, strict=True)
        ]

    def loss(self, trees: Sequence[Tree]) -> dy.Expression:
        return dy.esum([loss for tree in trees for loss in self._losses(tree)])

    def _losses(self, tree: Tree) -> list[dy.Expression]:
        states = [self._start(word) for word in tree.words]
        for left, right in zip(tree.left, tree.right, strict=True):
            states.append(self._join(*states[left], *states[right]))
        return [
            dy.pickneglogsoftmax(dy.affine_transform([*self._scores, hidden]), label)
            for (hidden, _), label in zip(states, tree.labels, strict=True)
        ]

    def _start(self, word: int) -> tuple[dy.Expression, dy.Expression]:
        vector = self._words[word]
        of_input, of_cell, of_output = (
            dy.affine_transform([bias, weight, vector]) for bias, weight in self._leaf
        )
        cell = dy.cmult(dy.logistic(of_input), dy.tanh(of_cell))
        return dy.cmult(dy.logistic(of_output), dy.tanh(cell)), cell

    def _join(
        self,
        hidden_left: dy.Expression,
        cell_left: dy.Expression,
        hidden_right: dy.Expression,
        cell_right: dy.Expression,
    ) -> tuple[dy.Expression, dy.Expression]:
        of_cell, of_input, of_output = (
            dy.affine_transform([bias, of_left, hidden_left, of_right, hidden_right])
            for bias, of_left, of_right in self._inner
        )
        forget_left, forget_right = (
            dy.logistic(dy.affine_transform([*forget, hidden]))
            for forget, hidden in zip(self._forget, (hidden_left, hidden_right), strict=True)
        )
        cell = (
            dy.cmult(dy.logistic(of_input), dy.tanh(of_cell))
            + dy.cmult(forget_left, cell_left)
            + dy.cmult(forget_right, cell_right)
        )
        return dy.cmult(dy.logistic(of_output), dy.tanh(cell)), cell


if __name__ == "__main__":
    given = arguments_of(__doc__)
    problem = Problem(given.problem)
    weights = Weights(problem)
    time_training(TreeLSTM(weights).loss, trees_of(problem), weights, given)
