"""Parsing sentences on a CPU: words, tags, arcs and transitions of one model or of several that vote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from parser.models.settings import ParserSettings
from parser.runtime.arcs import HeadScorer
from parser.runtime.kernels import FINISHED, Kernels
from parser.runtime.reference import Floats, Integers
from parser.runtime.steps import Legality, SentenceSteps, StackNetwork, situation_of
from parser.runtime.words import EncodedArrays, WordEncoder
from parser.transitions.labelled import LabelledTransitions
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
        transform: Callable[[Sequence[Sentence]], Floats] | None = None,
    ) -> RuntimeModel:
        """weights: of the model's file. labelled, numbers: see `StackNetwork`. transform: `WordEncoder`."""
        network = settings.network
        return cls(
            vocabulary,
            WordEncoder(network, vocabulary, weights, kernels, is_int8, transform),
            StackNetwork(network, labelled, weights, kernels, is_int8, numbers),
            HeadScorer(weights, kernels, is_int8) if network.arcs else None,
        )


class RuntimeParser:
    """Models whose scores are averaged at each transition. All have the transitions of the first."""

    def __init__(self, models: Sequence[RuntimeModel], labelled: LabelledTransitions):
        self.models = models
        self._legality, self._labels = Legality.of(labelled), labelled.label.tolist()
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
        lengths = encoded[0].lengths
        ends = lengths.cumsum().tolist()
        parts = [slice(start, end) for start, end in pairwise([0, *ends])]
        together = [number for number, each in enumerate(restrictions) if each is None]
        steps: dict[int, Steps] = {}
        network = self.models[0].network
        if network.is_compiled and len(self.models) == 1 and together:
            [words] = encoded
            vectors, some = words.vectors, lengths
            if len(together) < len(lengths):
                vectors, some = np.concatenate([vectors[parts[each]] for each in together]), lengths[together]
            steps = dict(zip(together, self._together(network, vectors, some, with_scores), strict=True))
        return [
            steps[number]
            if number in steps
            else self._alone([words.vectors[part] for words in encoded], restricted, with_scores)
            for number, (part, restricted) in enumerate(zip(parts, restrictions, strict=True))
        ]

    def _together(
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

    def _alone(self, vectors: Sequence[Floats], restricted: Restrictions | None, with_scores: bool) -> Steps:
        """Parse one sentence. vectors: [n, token] of its words, by model."""
        parsers = [
            SentenceSteps(model.network, each) for model, each in zip(self.models, vectors, strict=True)
        ]
        effects_of, length = self.models[0].network.effects, len(vectors[0])
        heads, labels = [NO_HEAD] * (length + 2), [0] * (length + 2)
        stack, front, headless = [0], 1, 0
        taken: list[int] = []
        kept: list[Floats] = []
        while True:
            depth, s0 = len(stack), stack[-1]
            situation = situation_of(depth, length + 1 - front, heads[s0], headless)
            if self._legality.only[situation] == FINISHED:
                return Steps(
                    heads[1:-1],
                    labels[1:-1],
                    taken,
                    np.array(kept, np.float32).reshape(len(kept), len(self._kinds)) if with_scores else None,
                )
            words = (s0, stack[-2] if depth > 1 else 0, front, NO_HEAD)
            legal = np.flatnonzero(self._legality.legal[situation])
            if restricted:
                if blocked := restricted.blocked(stack, front, heads, headless):
                    legal = legal[blocked >> self._kinds[legal] & 1 == 0]
                left = restricted.choose(legal.tolist(), words)
                legal = legal if left is None else legal[left]
            if len(legal) == 1:
                scores, transition = np.zeros(1, np.float32), int(legal[0])
            else:
                scores = np.mean([parser.scores(front) for parser in parsers], axis=0)[legal]
                transition = int(legal[scores.argmax()])
            if with_scores:
                kept.append(np.full(len(self._kinds), -np.inf, np.float32))
                kept[-1][legal] = scores
            taken.append(transition)
            effects = effects_of[transition]
            if effects.dependent != Place.NOWHERE:
                dependent = words[effects.dependent]
                heads[dependent], labels[dependent] = words[effects.head], self._labels[transition]
                if restricted:
                    restricted.count(heads[dependent], labels[dependent])
            for parser in parsers:
                parser.advance(transition, words[effects.top], front)
            del stack[depth + effects.stack_move - 1 :]
            stack.append(words[effects.top])
            front += effects.buffer_move
            headless += effects.headless_change
