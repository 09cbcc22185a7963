"""Parsing sentences on a CPU: words, tags, arcs and transitions of one model or of several that vote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from parser.models.settings import ParserSettings
from parser.runtime.arcs import HeadScorer
from parser.runtime.kernels import FINISHED, Kernels
from parser.runtime.reference import Floats, Integers
from parser.runtime.steps import GroupSteps, Legality, StackNetwork, situation_of
from parser.runtime.words import EncodedArrays, Transform, WordEncoder
from parser.transitions.labelled import Effects, LabelledTransitions
from parser.transitions.system import Place
from parser.treebank.sentence import NO_HEAD, Sentence
from parser.treebank.vocabulary import Vocabulary


class Steps(NamedTuple):
    """A parsed sentence of n words."""

    heads: list[int]
    """[n]"""
    labels: list[int]
    """[n]"""
    transitions: Sequence[int]
    """[steps]"""
    scores: Floats | None
    """[steps, transitions] Before each step; -infinity for illegal transitions. None unless requested."""


class Restrictions(Protocol):
    """Conditions on the transitions of a sentence."""

    def blocked(self, stack: Sequence[int], front: int, heads: Sequence[int], headless: int) -> int:
        """The kinds of transitions that must not be taken, as bits. heads: of ROOT and of each word."""

    def choose(self, legal: Sequence[int], words: Sequence[int]) -> Any:
        """The indices in `legal` of the transitions that are allowed; None for all. words: at the places."""

    def count(self, head: int, label: int) -> None:
        """Note an arc that was made."""


@dataclass(frozen=True)
class RuntimeModel:
    """One model: its weights as arrays, and the parts of its network."""

    vocabulary: Vocabulary
    encode: WordEncoder
    network: StackNetwork
    arcs: HeadScorer | None

    @classmethod
    def of(
        cls,
        settings: ParserSettings,
        vocabulary: Vocabulary,
        labelled: LabelledTransitions,
        weights: Mapping[str, Floats],
        kernels: Kernels,
        is_int8: bool,
        numbers: Sequence[int] | None = None,
        transform: Transform | None = None,
    ) -> RuntimeModel:
        """weights: of the model's file. labelled, numbers: see `StackNetwork`. transform: `WordEncoder`."""
        network = settings.network
        return cls(
            vocabulary,
            WordEncoder(network, vocabulary, weights, kernels, is_int8, transform),
            StackNetwork(network, labelled, weights, kernels, is_int8, numbers),
            HeadScorer(weights, kernels, is_int8) if network.arcs else None,
        )


class SentenceState:
    """The state of a sentence while it takes transitions."""

    def __init__(self, length: int, restricted: Restrictions | None):
        """length: in words."""
        self.length, self.restricted = length, restricted
        self.heads, self.labels = [NO_HEAD] * (length + 2), [0] * (length + 2)
        """Of ROOT, each word, and the end of the buffer."""
        self.stack, self.front, self.headless = [0], 1, 0
        self.transitions: list[int] = []
        self.scores: list[Floats] = []
        """[transitions] Before each step, if requested."""

    @property
    def situation(self) -> int:
        left = self.length + 1 - self.front
        return situation_of(len(self.stack), left, self.heads[self.stack[-1]], self.headless)

    @property
    def words(self) -> tuple[int, int, int, int]:
        """Those at `Place`, and the word below S1."""
        below, s1, s0 = [0, 0, *self.stack[-3:]][-3:]
        return s0, s1, self.front, below

    def advance(self, transition: int, effects: Effects[int], label: int) -> None:
        words = self.words
        if effects.dependent != Place.NOWHERE:
            head, dependent = words[effects.head], words[effects.dependent]
            self.heads[dependent], self.labels[dependent] = head, label
            if self.restricted:
                self.restricted.count(head, label)
        del self.stack[len(self.stack) + effects.stack_move - 1 :]
        self.stack.append(words[effects.top])
        self.front += effects.buffer_move
        self.headless += effects.headless_change
        self.transitions.append(transition)


class RuntimeParser:
    """Models whose scores are averaged at each transition. All have the transitions of the first."""

    def __init__(self, models: Sequence[RuntimeModel], labelled: LabelledTransitions):
        self.models = models
        legality, self._labels = Legality.of(labelled), labelled.label.tolist()
        self._legal = [np.flatnonzero(of_situation) for of_situation in legality.legal]
        self._finished = (legality.only == FINISHED).tolist()
        self._effects: list[Effects[int]] = [Effects(*each) for each in labelled.effects.tolist()]
        self._kinds = labelled.kind[:-1]

    def encode(self, sentences: Sequence[Sentence]) -> list[EncodedArrays]:
        """The words as each model encodes them."""
        return [model.encode(sentences) for model in self.models]

    def parse(
        self,
        encoded: Sequence[EncodedArrays],
        restrictions: Sequence[Restrictions | None],
        with_scores: bool = False,
    ) -> list[Steps]:
        """The transitions of sentences. encoded: see `encode`. restrictions: of each sentence."""
        lengths, network = encoded[0].lengths, self.models[0].network
        is_compiled = network.is_compiled and len(self.models) == 1
        in_c = np.array([is_compiled and each is None for each in restrictions], bool)
        steps: dict[int, Steps] = {}
        for part in in_c, ~in_c:
            if not part.any():
                continue
            numbers, some = np.flatnonzero(part).tolist(), lengths[part]
            is_read = np.repeat(part, lengths)
            vectors = [words.vectors if part.all() else words.vectors[is_read] for words in encoded]
            if part is in_c:
                [of_model] = vectors
                found = self._in_c(network, of_model, some, with_scores)
            else:
                restricted = [restrictions[number] for number in numbers]
                found = self._by_steps(vectors, some, restricted, with_scores)
            steps |= zip(numbers, found, strict=True)
        return [steps[number] for number in range(len(lengths))]

    def _in_c(
        self, network: StackNetwork, vectors: Floats, lengths: Integers, with_scores: bool
    ) -> Iterable[Steps]:
        taken = network.parse(vectors, lengths, with_scores)
        heads, labels = taken.heads.tolist(), taken.labels.tolist()
        for start, end in pairwise([0, *lengths.cumsum().tolist()]):
            transitions: list[int] = []
            scores = None
            if taken.transitions is not None and taken.scores is not None:
                of_sentence = taken.transitions[2 * start : 2 * end]
                transitions = of_sentence[of_sentence >= 0].tolist()
                scores = taken.scores[2 * start : 2 * start + len(transitions)]
            yield Steps(heads[start:end], labels[start:end], transitions, scores)

    def _by_steps(
        self,
        vectors: Sequence[Floats],
        lengths: Integers,
        restrictions: Sequence[Restrictions | None],
        with_scores: bool,
    ) -> Iterable[Steps]:
        """Parse sentences a step at a time. vectors: [W, token] of the words, by model."""
        networks = [
            GroupSteps(model.network, of_model, lengths)
            for model, of_model in zip(self.models, vectors, strict=True)
        ]
        sentences = [SentenceState(*each) for each in zip(lengths.tolist(), restrictions, strict=True)]
        roots = (lengths + 2).cumsum() - (lengths + 2)
        running: Sequence[int] = range(len(sentences))
        while running := [each for each in running if not self._finished[sentences[each].situation]]:
            numbers, some = np.array(running), [sentences[each] for each in running]
            places = np.array([sentence.words for sentence in some]) + roots[numbers, None]
            legal = [self._allowed(sentence) for sentence in some]
            scores = np.zeros((len(some), len(self._kinds)), np.float32)
            if choosing := [row for row, among in enumerate(legal) if len(among) > 1]:
                for network in networks:
                    scores[choosing] += network.scores(numbers[choosing], places[choosing])
                scores /= len(networks)
            taken = [int(among[row[among].argmax()]) for row, among in zip(scores, legal, strict=True)]
            for sentence, row, among, transition in zip(some, scores, legal, taken, strict=True):
                if with_scores:
                    sentence.scores.append(np.full(len(row), -np.inf, np.float32))
                    sentence.scores[-1][among] = row[among]
                sentence.advance(transition, self._effects[transition], self._labels[transition])
            for network in networks:
                network.advance(numbers, places, np.array(taken))
        for sentence in sentences:
            scores = np.array(sentence.scores, np.float32).reshape(-1, len(self._kinds))
            arcs = sentence.heads[1:-1], sentence.labels[1:-1]
            yield Steps(*arcs, sentence.transitions, scores if with_scores else None)

    def _allowed(self, sentence: SentenceState) -> Integers:
        """The transitions that a sentence may take, at least one."""
        legal, restricted = self._legal[sentence.situation], sentence.restricted
        if restricted:
            state = sentence.stack, sentence.front, sentence.heads, sentence.headless
            if blocked := restricted.blocked(*state):
                legal = legal[blocked >> self._kinds[legal] & 1 == 0]
            left = restricted.choose(legal.tolist(), sentence.words)
            legal = legal if left is None else legal[left]
        return legal
