"""Parsing single sentences on a CPU, in plain numbers: faster than a batch of few sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.models.ensemble import numbers_in
from parser.models.model import Model
from parser.networks.stepping.plain_steps import Array, PlainNetwork, PlainParser
from parser.parsing.constrained_alone import ConstrainedSentence, TransitionArrays
from parser.parsing.constraints import SentenceConstraints
from parser.parsing.label_choices import LabelChoices
from parser.parsing.parsed_tree import Arcs
from parser.transitions.inventory import Effects, Inventory
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

    def narrowed(self, places: Array) -> Situation:
        """The situation with only some of the transitions. places: [n] their places in `legal`."""
        if len(places) == len(self.legal):
            return self
        legal = [self.legal[place] for place in places]
        weights = [(weight[:, places], bias[places]) for weight, bias in self.weights]
        return self._replace(legal=legal, weights=weights, keeps_root=self.keeps_root[:, places])


class AloneParser:
    """Parses sentences one at a time."""

    def __init__(self, models: Sequence[Model]):
        """models: on the CPU; their scores are averaged."""
        self._model = models[0]
        inventory = models[0].inventory
        self._networks = [
            PlainNetwork(model.network, model.inventory, numbers_in(model, models[0]).tolist())
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
        found = PlainProbabilities(length) if probabilities else None
        constrained = ConstrainedSentence(self._transitions, constraints) if constraints else None
        heads, labels = [NO_HEAD] * (length + 2), [0] * (length + 2)
        stack, front, headless = [0], 1, 0
        while True:
            depth, s0 = len(stack), stack[-1]
            index = _index(depth, length + 1 - front, heads[s0], headless)
            situation = self._situations[index]
            if situation.is_finished:
                return Arcs(heads[1:-1], labels[1:-1], found.of_arcs[1:-1] if found else [])
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
            if found:
                found.add(situation.keeps_root, scores, best, effects, words)
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


def _mean_scores(parsers: Sequence[PlainParser], weights: Sequence[tuple[Array, Array]], front: int) -> Array:
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
    place = (min(depth, 3) - 1) * len(WORDS_LEFT) + min(left, 2)
    return (place * len(HEADS) + min(head, 1) + 1) * len(HEADLESS) + (headless > 0)


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
    found = []
    for (depth, *_), row, is_finished in zip(
        cases, legal, inventory.system.finished(state).tolist(), strict=True
    ):
        numbers = row.nonzero().flatten()
        weights = [
            (np.ascontiguousarray(weight[:, numbers.numpy()]), bias[numbers.numpy()])
            for weight, bias in scores
        ]
        keeps_root = inventory.keeps_root[int(depth == 1)][:, numbers].double().numpy()
        found.append(Situation(is_finished, numbers.tolist(), weights, keeps_root))
    return found


class PlainProbabilities:
    """Like `ArcProbabilities`, for one sentence."""

    def __init__(self, words: int):
        self.of_arcs = [1.0] * (words + 2)
        self._kept = [1.0] * (words + 2)
        self._rootless = 1.0

    def add(
        self,
        keeps_root: Array,
        scores: Array | None,
        best: int,
        effects: Effects[int],
        words: tuple[int, int, int, int],
    ) -> None:
        """Add a transition before it is taken.

        scores: [legal]; None if only one transition is legal. best: the index of the transition among the
        legal ones. words: those at the places, before it is taken.
        """
        probabilities: Array = np.ones(1) if scores is None else _softmax(scores)
        if effects.dependent != Place.NOWHERE:
            own, dependent = float(probabilities[best]), words[effects.dependent]
            from_root = own * self._kept[dependent] * self._rootless
            self.of_arcs[dependent] = from_root if words[effects.head] == 0 else own
        *kept, rootless = keeps_root.dot(probabilities).tolist()
        for word, share in zip(words, kept, strict=False):
            self._kept[word] *= share
        self._rootless *= rootless


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()
