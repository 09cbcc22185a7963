"""The network above the word vectors: LSTMs over stack, buffer and history, and the scores of transitions.

What words add is computed once for all of them. The transitions of all sentences follow together: in C
(`StackNetwork.parse`), or a step at a time (`GroupSteps`), with constraints, ensembles and composition.
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

BELOW = np.array([Place.S0, Place.S1, len(Place) - 1])
"""The column in `GroupSteps.advance` of the word below a push, by the number of words that it replaces."""


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
        self.nothing = np.zeros((1, self.layers, STATE * hidden), np.float32)
        """[1, layers, 6 * hidden] The state of an LSTM before its first input."""
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
        self.effects: Any = Effects(*effects.T)
        """[transitions + 1] Each of them."""
        pushes = self.effects.stack_move == 1 - self.effects.stack_read
        self.below = np.where(pushes, BELOW[self.effects.stack_read], -1)
        """[transitions + 1] See `BELOW`; -1 without a push."""
        self._tables = Transitions(
            *(self.stack, self.history, self.scores.packed, self.of_transitions),
            np.where(np.ascontiguousarray(legality.legal), np.float32(0), np.float32(-np.inf)),
            legality.only,
            effects[:-1].astype(np.int32),
            labelled.label[:-1].astype(np.int32),
        )
        self.first_history = self.step(self.history, self.of_transitions[-1:], self.nothing)[0]
        self.end_state = self.after(end[None], self.nothing)[0]
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
        """[rows, layers, 6 * hidden] See `NumPyKernels.step`."""
        after: Floats = self.kernels.step(lstm, gates, before)
        return after

    def output(self, states: Floats) -> Floats:
        """[rows, hidden] What states [rows, layers, 6 * hidden] add to the scores' input."""
        return states[:, -1, 4 * self.hidden : 5 * self.hidden]

    def on_stack(self, pushed: Floats, below: Floats) -> Floats:
        """[rows, layers, 6 * hidden] The states of words on the stack, with what they add as S0.

        pushed: [rows, 6 * hidden], see `OfWords`. below: the states of the words below them.
        """
        states = self.step(self.stack, pushed[:, : 4 * self.hidden], below)
        self.output(states)[:] += pushed[:, 4 * self.hidden : 5 * self.hidden]
        return states

    def of_words(self, vectors: Floats, lengths: Integers) -> OfWords:
        """vectors: [W, token]. lengths: [sentences] in words."""
        fronts = np.empty((len(vectors) + 1, self.hidden), np.float32)
        states = vectors
        for (of_input, recurrent), begin in zip(self._buffer_layers, self._begin, strict=True):
            gates, states = of_input(states), np.empty((len(vectors), self.hidden), np.float32)
            self.kernels.lstm(recurrent.packed, gates, lengths, states, backward=True, begin=begin)
        fronts[:-1], fronts[-1] = self._from_buffer(states), self.output(self.end_state[None])
        if self._as_front:
            fronts += self._as_front(np.concatenate([vectors, self.end[None]]))
        return OfWords(self.push(np.concatenate([vectors, self.root[None]])), fronts)

    def after(self, vectors: Floats, states: Floats) -> Floats:
        """[rows, layers, 6 * hidden] The states of the buffer's LSTM after words [rows, token] more."""
        return self.step(self._buffer, self._buffer_layers[0][0](vectors), states)

    def as_fronts(self, vectors: Floats, states: Floats) -> Floats:
        """[rows, hidden] What words [rows, token] add as B0. states: of the buffer's LSTM after them."""
        added = self.output(states)
        return added + self._as_front(vectors) if self._as_front else added

    def composed(self, heads: Floats, dependents: Floats, transitions: Integers) -> Floats:
        """[rows, token] The vectors of heads with new dependents, see `Composition`."""
        joined = self._join(np.concatenate([heads, dependents], axis=1))
        vectors: Floats = np.tanh(joined + self._of_composed[transitions])
        return vectors

    def parse(self, vectors: Floats, lengths: Integers, with_scores: bool) -> Taken:
        """All transitions of sentences without constraints, in C. vectors, lengths: see `of_words`."""
        taken: Taken = self.kernels.parse(
            self._tables, lengths, *self.of_words(vectors, lengths), with_scores
        )
        return taken


class GroupSteps:
    """One network in several sentences, which take transitions together.

    Tables have rows for ROOT, each word and the end of the buffer, one sentence after the other.
    """

    def __init__(self, network: StackNetwork, vectors: Floats, lengths: Integers):
        """vectors: [W, token] of the words. lengths: [sentences] in words."""
        self._network = network
        of_words = network.of_words(vectors, lengths)
        ends = (lengths + 2).cumsum() - 1
        row = np.full(len(vectors) + 2 * len(lengths), len(vectors))
        is_word = np.ones(len(row), bool)
        is_word[ends] = is_word[ends - lengths - 1] = False
        row[is_word] = np.arange(len(vectors))
        self._pushed, self._fronts = of_words.pushed[row], of_words.fronts[row]  # [rows, ...] see `OfWords`
        self._on_stack = np.empty((len(row), *network.nothing.shape[1:]), np.float32)
        """[rows, layers, 6 * hidden] The states of words on the stack."""
        self._on_stack[ends - lengths - 1] = network.on_stack(of_words.pushed[-1:], network.nothing)
        self._histories = np.repeat(network.first_history[None], len(lengths), axis=0)
        """[sentences, layers, 6 * hidden]"""
        if network.composes:
            self._vectors = np.concatenate([vectors, network.root[None]])[row]  # [rows, token]
            self._in_buffer = np.empty_like(self._on_stack)
            """[rows, layers, 6 * hidden] The states of the buffer's LSTM after each word."""
            self._in_buffer[ends] = network.end_state
            for step in range(1, lengths.max(initial=0) + 1):
                words = ends[lengths >= step] - step
                self._in_buffer[words] = network.after(self._vectors[words], self._in_buffer[words + 1])

    def scores(self, sentences: Integers, places: Integers) -> Floats:
        """[n, transitions] Of n sentences. places: [n, >= 3] the rows of the words at `Place`."""
        network, (s0, s1, b0) = self._network, places[:, : Place.NOWHERE].T
        joined = network.output(self._histories[sentences]) + network.output(self._on_stack[s0])
        joined = joined + self._pushed[s1, 5 * network.hidden :] + self._fronts[b0]
        return network.scores(np.maximum(joined, 0))

    def advance(self, sentences: Integers, places: Integers, transitions: Integers) -> None:
        """Take a transition in each of n sentences.

        places: [n, 4] the rows of the words at `Place` before it, and of the word below S1. transitions: [n].
        """
        network, row = self._network, np.arange(len(sentences))
        tops, below = places[row, network.effects.top[transitions]], network.below[transitions]
        if network.composes:
            self._compose(places, tops, transitions)
        [pushing] = (below >= 0).nonzero()
        if len(pushing):
            tops, below = tops[pushing], places[pushing, below[pushing]]
            self._on_stack[tops] = network.on_stack(self._pushed[tops], self._on_stack[below])
        gates = network.of_transitions[transitions]
        self._histories[sentences] = network.step(network.history, gates, self._histories[sentences])

    def _compose(self, places: Integers, tops: Integers, transitions: Integers) -> None:
        """Replace the vectors of words in B0 or on top of the stack. tops: [n] the rows of the latter."""
        network = self._network
        of_sentences = network.effects.composes[transitions]
        [composing] = (of_sentences != Place.NOWHERE).nonzero()
        if not len(composing):
            return
        in_buffer, transitions = of_sentences[composing] == Place.B0, transitions[composing]
        words = np.where(in_buffer, places[composing, Place.B0], tops[composing])
        heads, dependents = (
            self._vectors[places[composing, place[transitions]]]
            for place in (network.effects.head, network.effects.dependent)
        )
        self._vectors[words] = network.composed(heads, dependents, transitions)
        self._pushed[words] = network.push(self._vectors[words])
        words = words[in_buffer]
        states = network.after(self._vectors[words], self._in_buffer[words + 1])
        self._fronts[words] = network.as_fronts(self._vectors[words], states)
