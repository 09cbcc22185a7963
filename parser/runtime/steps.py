"""The network above the word vectors: LSTMs over stack, buffer and history, and the scores of transitions.

What words add is computed once for all of them. The transitions follow: without composition in C, for many
sentences together (`StackNetwork.parse`), or one at a time (`SentenceSteps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from parser.networks.settings import NetworkSettings
from parser.runtime.kernels import FINISHED, SEVERAL, CompiledKernels, Kernels, Taken, Transitions
from parser.runtime.layers import LinearLayer, LSTMWeights, layers_of
from parser.runtime.reference import STATE, Floats, Integers
from parser.transitions.labelled import Effects, LabelledTransitions
from parser.transitions.system import Place
from parser.treebank.sentence import NO_HEAD

DEPTHS, WORDS_LEFT, HEADS, HEADLESS = (1, 2, 3), (0, 1, 2), (NO_HEAD, 0, 1), (0, 1)
"""What distinguishes situations: the depth of the stack and the words in the buffer, whose last values stand
for more, too; the head of S0 (none, ROOT or a word); the words on the stack without a head, 1 for any."""


class Legality(NamedTuple):
    """The legal transitions in each situation, in the order of `situation_of`."""

    legal: np.ndarray[Any, np.dtype[np.bool_]]
    """[situations, transitions]"""
    only: Integers
    """[situations] int32: the only legal transition, `SEVERAL` or `FINISHED`."""

    @classmethod
    def of(cls, labelled: LabelledTransitions) -> Legality:
        """The transition system itself decides what is legal."""
        depth, left, head, headless = np.array([*product(DEPTHS, WORDS_LEFT, HEADS, HEADLESS)]).T
        situations: Any = Situations(depth, left, head, headless)
        of_kinds = np.stack(labelled.system.legal(situations), 1)  # [situations, kinds]
        legal = of_kinds[:, labelled.kind[:-1]] & labelled.known
        only = np.where(legal.sum(1) == 1, legal.argmax(1), SEVERAL)
        only = np.where(labelled.system.finished(situations), FINISHED, only)
        return cls(legal, only.astype(np.int32))


class Situations(NamedTuple):
    """The properties of states, as in `View` and `State`, on which rules depend; [situations] each."""

    depth: Integers
    words_left: Integers
    s0_head: Integers
    headless: Integers
    front: int = 1

    @property
    def state(self) -> Situations:
        return self

    @property
    def length(self) -> Integers:
        return self.words_left

    @property
    def has_buffer(self) -> Any:
        return self.words_left > 0

    @property
    def s0_is_word(self) -> Any:
        return self.depth >= 2

    @property
    def s1_is_word(self) -> Any:
        return self.depth >= 3


def situation_of(depth: int, left: int, head: int, headless: int) -> int:
    """The number of a situation. left: words in the buffer. head: of S0. headless: words without a head."""
    of_depth_and_left = (min(depth, 3) - 1) * len(WORDS_LEFT) + min(left, 2)
    return (of_depth_and_left * len(HEADS) + min(head, 1) + 1) * len(HEADLESS) + (headless > 0)


class StackEntry(NamedTuple):
    state: Floats
    """[layers, 6 * hidden] See `STATE`."""
    as_top: Floats
    """[hidden] What the entry adds to the scores' input as S0."""
    as_below: Floats
    """[hidden] What it adds as S1."""
    vector: Floats
    """[token]"""


class OfWords(NamedTuple):
    """What the words of sentences add to the steps, without composition."""

    pushed: Floats
    """[W + 1, 6 * hidden] Of each word and of ROOT: to the gates of the stack's LSTM, and to the input of the
    scores as S0 and as S1."""
    fronts: Floats
    """[W + 1, hidden] What each word, and the end of the buffer, adds as B0."""


class StackNetwork:
    def __init__(
        self,
        settings: NetworkSettings,
        labelled: LabelledTransitions,
        weights: Mapping[str, Floats],
        kernels: Kernels,
        is_int8: bool,
        numbers: Sequence[int] | None = None,
    ):
        """weights: of the model's file. is_int8: whether products round to 8 bits. numbers: [transitions + 1]
        those of the transitions of another model, whose order is used, and of `no_op`."""
        self.kernels: Any = kernels
        hidden, self.root, end = settings.hidden_size, weights["tokens.root"], weights["tokens.end"]
        self.end = end
        order = np.arange(len(labelled) + 1) if numbers is None else np.array(numbers)
        of_words = np.zeros((3 * hidden, len(self.root)), np.float32)  # S0, S1 and B0
        if settings.word_features:
            of_words = weights["from_words.weight"]
        lowest = LSTMWeights.of(weights, "stack", 0)
        self.push = LinearLayer(
            kernels,
            np.concatenate([lowest.of_input, of_words[: 2 * hidden]]),
            np.concatenate([lowest.bias, np.zeros(2 * hidden, np.float32)]),
            is_int8,
        )
        self.layers, self.hidden = layers_of(weights, "stack"), hidden
        self.nothing = np.zeros((self.layers, STATE * hidden), np.float32)
        """[layers, 6 * hidden] The state of an LSTM before its first input."""
        self._buffer_layers = [
            LSTMWeights.of(weights, "buffer", layer).layers(kernels, is_int8) for layer in range(self.layers)
        ]
        self._buffer = self._lstm(weights, "buffer", "from_buffer", is_int8)
        self._from_buffer = LinearLayer(kernels, weights["from_buffer.weight"], None, is_int8)
        self._as_front = (
            LinearLayer(kernels, of_words[2 * hidden :], None, is_int8) if settings.word_features else None
        )
        self.scores = LinearLayer(
            kernels, weights["scores.weight"][order[:-1]], weights["scores.bias"][order[:-1]], is_int8
        )
        of_history = LSTMWeights.of(weights, "history", 0)
        embeddings = weights["transition_embeddings.weight"][order]
        self.of_transitions = LinearLayer(kernels, of_history.of_input, of_history.bias)(embeddings)
        """[transitions + 1, 4 * hidden] What each adds to the gates of the history; the last is `no_op`."""
        self.stack = self._lstm(weights, "stack", "from_stack", is_int8)
        self.history = self._lstm(weights, "history", "from_history", is_int8)
        self.composes = settings.composition
        self.is_compiled = isinstance(kernels, CompiledKernels) and not self.composes
        """Whether `parse` can be called."""
        if self.composes:
            self._join = LinearLayer(kernels, weights["composition.join.weight"], None, is_int8)
            self._of_composed = weights["composition.transitions.weight"][order]
        legality = Legality.of(labelled)
        effects = labelled.effects[order]  # [transitions + 1, effects]
        self.effects: list[Effects[int]] = [Effects(*each) for each in effects.tolist()]
        self._tables = Transitions(
            *(self.stack, self.history, self.scores.packed, self.of_transitions),
            np.where(np.ascontiguousarray(legality.legal), np.float32(0), np.float32(-np.inf)),
            legality.only,
            effects[:-1].astype(np.int32),
            labelled.label[:-1].astype(np.int32),
        )
        self.first_history = self.step(self.history, self.of_transitions[-1], self.nothing)
        self.first_entry = self.entry(self.root, self.push(self.root[None])[0], self.nothing)
        self.end_state = self.after(end, self.nothing)
        """[layers, 6 * hidden] Of the buffer's LSTM, when the buffer is empty."""
        self._begin = np.delete(self.end_state, np.s_[4 * hidden : 5 * hidden], axis=1)
        """[layers, 5 * hidden] The same, as `NumPyKernels.lstm` reads it."""

    def _lstm(self, weights: Mapping[str, Floats], name: str, projection: str, is_int8: bool) -> Any:
        """The layers of an LSTM; the last one also projects its hidden state."""
        inputs, recurrent, layers = [], [], layers_of(weights, name)
        for layer in range(layers):
            each = LSTMWeights.of(weights, name, layer)
            if layer:
                inputs.append(self.kernels.pack(each.of_input, each.bias, is_int8))
            matrix, bias = each.recurrent, np.zeros(len(each.recurrent), np.float32)
            if layer == layers - 1:
                projected = weights[f"{projection}.weight"]
                matrix = np.concatenate([matrix, projected])
                zeros = np.zeros(len(projected), np.float32)
                bias = np.concatenate([bias, weights.get(f"{projection}.bias", zeros)])
            recurrent.append(self.kernels.pack(matrix, bias, is_int8))
        return self.kernels.pack_lstm(inputs, recurrent)

    def step(self, lstm: Any, gates: Floats, before: Floats) -> Floats:
        """[layers, 6 * hidden] See `NumPyKernels.step`."""
        after: Floats = self.kernels.step(lstm, gates, before)
        return after

    def output(self, state: Floats) -> Floats:
        """[hidden] What a state [layers, 6 * hidden] adds to the scores' input."""
        return state[-1, 4 * self.hidden : 5 * self.hidden]

    def entry(self, vector: Floats, pushed: Floats, below: Floats) -> StackEntry:
        """The entry of a word. pushed: [6 * hidden], see `OfWords`. below: the state of the entry below."""
        gates, as_top, as_below = np.split(pushed, [4 * self.hidden, 5 * self.hidden])
        state = self.step(self.stack, gates, below)
        return StackEntry(state, self.output(state) + as_top, as_below, vector)

    def of_words(self, vectors: Floats, lengths: Integers) -> OfWords:
        """vectors: [W, token]. lengths: [sentences] in words."""
        fronts = np.empty((len(vectors) + 1, self.hidden), np.float32)
        states = vectors
        for (of_input, recurrent), begin in zip(self._buffer_layers, self._begin, strict=True):
            gates, states = of_input(states), np.empty((len(vectors), self.hidden), np.float32)
            self.kernels.lstm(recurrent.packed, gates, lengths, states, backward=True, begin=begin)
        fronts[:-1], fronts[-1] = self._from_buffer(states), self.output(self.end_state)
        if self._as_front:
            fronts += self._as_front(np.concatenate([vectors, self.end[None]]))
        return OfWords(self.push(np.concatenate([vectors, self.root[None]])), fronts)

    def after(self, vector: Floats, state: Floats) -> Floats:
        """[layers, 6 * hidden] The state of the buffer's LSTM after a word [token] more."""
        return self.step(self._buffer, self._buffer_layers[0][0](vector[None])[0], state)

    def as_front(self, vector: Floats, state: Floats) -> Floats:
        """[hidden] What B0 adds. vector: [token] its vector. state: of the buffer's LSTM after it."""
        added = self.output(state)
        return added + self._as_front(vector[None])[0] if self._as_front else added

    def composed(self, head: Floats, dependent: Floats, transition: int) -> Floats:
        """[token] The vector of a head with a new dependent, see `Composition`."""
        joined = self._join(np.concatenate([head, dependent])[None])[0]
        vector: Floats = np.tanh(joined + self._of_composed[transition])
        return vector

    def parse(self, vectors: Floats, lengths: Integers, with_scores: bool) -> Taken:
        """All transitions of sentences without constraints, in C. vectors, lengths: see `of_words`."""
        taken: Taken = self.kernels.parse(
            self._tables, lengths, *self.of_words(vectors, lengths), with_scores
        )
        return taken


class SentenceSteps:
    """One network in one sentence, a transition at a time."""

    def __init__(self, network: StackNetwork, vectors: Floats):
        """vectors: [n, token] of the words."""
        self._network, self._vectors = network, np.concatenate([vectors, network.end[None]])
        self._history, self._stack = network.first_history, [network.first_entry]
        if network.composes:
            states = [network.end_state]
            for vector in vectors[::-1]:
                states.append(network.after(vector, states[-1]))
            self._states = states[::-1]
            """Of the buffer's LSTM when each word, or the end, is the first."""
            self._vector, self._front = self._vectors[0], self._as_front(0)
        else:
            self._of_words = network.of_words(vectors, np.array([len(vectors)]))

    def _as_front(self, place: int) -> Floats:
        return self._network.as_front(self._vectors[place], self._states[place])

    def scores(self, front: int) -> Floats:
        """[transitions] front: the number of B0, from 1."""
        network, stack = self._network, self._stack
        joined = network.output(self._history) + stack[-1].as_top
        joined = joined + stack[-2 if len(stack) > 1 else -1].as_below
        joined = joined + (self._front if network.composes else self._of_words.fronts[front - 1])
        return network.scores(np.maximum(joined, 0)[None])[0]

    def advance(self, transition: int, top: int, front: int) -> None:
        """Take a transition. top: the word on top of the stack afterwards. front: B0 before it."""
        network, stack = self._network, self._stack
        effects = network.effects[transition]
        read, move = effects.stack_read, effects.stack_move
        if network.composes:
            vectors = [stack[-1].vector, stack[-2 if len(stack) > 1 else -1].vector, self._vector]
            if effects.composes != Place.NOWHERE:
                composed = network.composed(vectors[effects.head], vectors[effects.dependent], transition)
                if effects.composes == Place.B0:
                    vectors[Place.B0] = self._vector = composed
                    self._front = network.as_front(composed, network.after(composed, self._states[front]))
        if move == 1 - read:
            del stack[len(stack) - read :]
            if network.composes:
                vector = composed if effects.composes == Place.S0 else vectors[effects.top]
                pushed = network.push(vector[None])[0]
            else:
                vector, pushed = self._vectors[top - 1], self._of_words.pushed[top - 1]
            stack.append(network.entry(vector, pushed, stack[-1].state))
        else:
            del stack[len(stack) + move :]
        if network.composes and effects.buffer_move:
            self._vector, self._front = self._vectors[front], self._as_front(front)
        self._history = network.step(network.history, network.of_transitions[transition], self._history)
