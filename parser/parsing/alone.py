"""Parsing sentences alone, one after the other on a CPU, in NumPy: faster than a batch of few sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.models.model import Model, numbers_in
from parser.networks.stepping.array_steps import Array, ArrayNetwork, ArrayParser
from parser.parsing.constrained_steps import ConstrainedSentence, TransitionArrays
from parser.parsing.constraints import LabelChoices, SentenceConstraints
from parser.parsing.parsed_tree import Arcs
from parser.parsing.probabilities import AloneProbabilities
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place, State
from parser.treebank.sentence import NO_HEAD

DEPTHS, WORDS_LEFT, HEADS, HEADLESS = (1, 2, 3), (0, 1, 2), (NO_HEAD, 0, 1), (0, 1)
"""What distinguishes situations: the depth of the stack and the words in the buffer, whose last values stand
for more, too; the head of S0 (none, ROOT or a word); the words on the stack without a head, 1 for any."""


class Situation(NamedTuple):
    """States in which the same transitions are legal."""

    is_finished: bool
    legal: list[int]
    """The legal labelled transitions."""
    weights: list[tuple[Array, Array]]
    """For each network, weights [hidden, legal] and biases [legal] of the scores of the legal transitions."""
    keeps_root: Array
    """[places, legal] See `Inventory.keeps_root`."""

    def narrowed(self, which: Array) -> Situation:
        """The situation with only some of the transitions. which: [n] their indices in `legal`."""
        if len(which) == len(self.legal):
            return self
        legal = [self.legal[index] for index in which]
        weights = [(weight[:, which], bias[which]) for weight, bias in self.weights]
        return self._replace(legal=legal, weights=weights, keeps_root=self.keeps_root[:, which])


class AloneParser:
    """Parses sentences one at a time."""

    def __init__(self, models: Sequence[Model]):
        """models: on the CPU; their scores are averaged."""
        self._model = models[0]
        inventory = models[0].inventory
        self._networks = [
            ArrayNetwork(model.network, model.inventory, numbers_in(model, models[0]).tolist())
            for model in models
        ]
        self._labels = inventory.label.tolist()
        self._effects = self._networks[0].effects
        self._narrowed: dict[tuple[int, int], Situation] = {}
        self._situations = list(_situations(inventory, [network.scores for network in self._networks]))

    @cached_property
    def _transitions(self) -> TransitionArrays:
        return TransitionArrays(self._model.inventory, LabelChoices.of(self._model.vocabulary))

    def _without(self, index: int, blocked: int) -> Situation:
        """A situation without the blocked kinds of transitions. blocked: one bit for each kind."""
        if not blocked:
            return self._situations[index]
        if (index, blocked) not in self._narrowed:
            before = self._situations[index]
            self._narrowed[index, blocked] = before.narrowed(self._transitions.without(before.legal, blocked))
        return self._narrowed[index, blocked]

    def parse(
        self,
        tables: Sequence[Tensor],
        probabilities: bool = False,
        constraints: SentenceConstraints | None = None,
    ) -> Arcs:
        """Parse a sentence.

        tables: for each model [W + 2, token], the vectors of the words, of ROOT and of the end.
        """
        parsers = [network.begin(table) for network, table in zip(self._networks, tables, strict=True)]
        length = len(tables[0]) - 2
        of_arcs = AloneProbabilities(length) if probabilities else None
        constrained = ConstrainedSentence(self._transitions, constraints) if constraints else None
        heads, labels = [NO_HEAD] * (length + 2), [0] * (length + 2)
        stack, front, headless = [0], 1, 0
        while True:
            depth, s0 = len(stack), stack[-1]
            index = _index(depth, length + 1 - front, heads[s0], headless)
            situation = self._situations[index]
            if situation.is_finished:
                return Arcs(heads[1:-1], labels[1:-1], of_arcs.of_arcs[1:-1] if of_arcs else [])
            words = (s0, stack[-2] if depth > 1 else 0, front, NO_HEAD)
            if constrained:
                situation = self._without(index, constrained.blocked(stack, front, heads, headless))
                left = constrained.choose(situation.legal, words)
                situation = situation if left is None else situation.narrowed(left)
            if len(situation.legal) == 1:
                best, scores = 0, None
            else:
                scores = _mean_scores(parsers, situation.weights, front)
                best = int(scores.argmax())
            transition = situation.legal[best]
            effects = self._effects[transition]
            if of_arcs:
                of_arcs.add(situation.keeps_root, scores, best, effects, words)
            if effects.dependent != Place.NOWHERE:
                dependent = words[effects.dependent]
                heads[dependent], labels[dependent] = words[effects.head], self._labels[transition]
                if constrained:
                    constrained.count(heads[dependent], labels[dependent])
            for parser in parsers:
                parser.advance(transition, words[effects.top], front)
            del stack[depth + effects.stack_move - 1 :]
            stack.append(words[effects.top])
            front += effects.buffer_move
            headless += effects.headless_change


def _mean_scores(parsers: Sequence[ArrayParser], weights: Sequence[tuple[Array, Array]], front: int) -> Array:
    """[legal] The scores of the legal transitions."""
    total = None
    for parser, (weight, bias) in zip(parsers, weights, strict=True):
        scores = parser.joined(front).dot(weight)
        scores += bias
        total = scores if total is None else total + scores
    assert total is not None
    return total / len(parsers) if len(parsers) > 1 else total


def _index(depth: int, left: int, head: int, headless: int) -> int:
    """The index of a situation, in the order of `product`."""
    of_depth_and_left = (min(depth, 3) - 1) * len(WORDS_LEFT) + min(left, 2)
    return (of_depth_and_left * len(HEADS) + min(head, 1) + 1) * len(HEADLESS) + (headless > 0)


def _situations(inventory: Inventory, scores: Sequence[tuple[Array, Array]]) -> list[Situation]:
    """All situations, in the order of `_index`. The transition system itself decides what is legal.

    scores: the weights and biases of each network.
    """
    cases = list(product(DEPTHS, WORDS_LEFT, HEADS, HEADLESS))
    length = max(DEPTHS) + max(WORDS_LEFT)
    state = State.initial(torch.full((len(cases),), length))
    state.stack[:, : max(DEPTHS)] = torch.arange(max(DEPTHS))
    for row, (depth, left, head, headless) in enumerate(cases):
        state.depth[row], state.front[row], state.headless[row] = depth, length + 1 - left, headless
        if depth > 1:
            state.heads[state.base[row] + depth - 1] = head
    legal = inventory.with_labels(inventory.system.legal(state))
    situations = []
    for (depth, *_), row, is_finished in zip(
        cases, legal, inventory.system.finished(state).tolist(), strict=True
    ):
        numbers = row.nonzero().flatten()
        weights = [
            (np.ascontiguousarray(weight[:, numbers.numpy()]), bias[numbers.numpy()])
            for weight, bias in scores
        ]
        keeps_root = inventory.keeps_root[int(depth == 1)][:, numbers].double().numpy()
        situations.append(Situation(is_finished, numbers.tolist(), weights, keeps_root))
    return situations
