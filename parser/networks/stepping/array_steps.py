"""The steps of one parser in arrays: NumPy's vector products, without PyTorch.

In a step of a small network for one sentence, PyTorch's dispatcher takes far longer than the computation.
Matrix products that are computed once for a sentence stay with PyTorch: NumPy would run them in threads of
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.networks.stack_parser import FEATURE_WORDS, StackParser, WordVectors
from parser.networks.stepping.buffers import Buffers
from parser.networks.stepping.stepper import AS_BELOW, AS_FRONT, AS_TOP
from parser.transitions.inventory import Effects, Inventory
from parser.transitions.system import Place

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
States: TypeAlias = list[tuple[Array, Array]]
"""The hidden and the cell state of each layer, [hidden] each."""


def array(tensor: Tensor) -> Array:
    """A copy of a tensor, independent of later changes of the tensor."""
    return np.array(tensor.detach().numpy(), order="C")


class ArrayLSTM:
    """The cell of `parser.batching.lstm`, with sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.

    The factor 1 / 2 of x is part of the weights.
    """

    def __init__(self, lstm: nn.LSTM):
        self._size = size = lstm.hidden_size
        zero = torch.zeros(size, dtype=next(lstm.parameters()).dtype)
        scale = torch.cat([zero + 0.5, zero + 0.5, zero + 1, zero + 0.5])
        self._scale, self._shift = array(scale), array(1 - scale)
        self._layers = []
        for layer in range(lstm.num_layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            of_input, recurrent, *biases = (getattr(lstm, f"{name}_l{layer}") for name in names)
            parts = of_input.T * scale, sum(biases) * scale, recurrent.T * scale
            self._layers.append(tuple(map(array, parts)))
        self.zeros: States = [(array(zero), array(zero)) for _ in self._layers]
        """The states before the first input."""

    @property
    def of_input(self) -> tuple[Tensor, Tensor]:
        """[4 * hidden, input] and [4 * hidden] Weight and bias of `project`."""
        weight, bias, _ = self._layers[0]
        return torch.from_numpy(weight.T), torch.from_numpy(bias)

    def project(self, inputs: Array) -> Array:
        """[4 * hidden] The part of the lowest layer's gates that depends on inputs [input]."""
        of_input, bias, _ = self._layers[0]
        return inputs.dot(of_input) + bias

    def advance(self, gates: Array, states: States) -> States:
        """The states after an input. gates: [4 * hidden], see `project`."""
        size = self._size
        after: States = []
        for (of_input, bias, recurrent), (hidden, cell) in zip(self._layers, states, strict=True):
            if after:
                gates = after[-1][0].dot(of_input) + bias
            active = hidden.dot(recurrent)
            active += gates
            np.tanh(active, out=active)
            active *= self._scale
            active += self._shift
            cell = active[size : 2 * size] * cell + active[:size] * active[2 * size : 3 * size]
            after.append((active[3 * size :] * np.tanh(cell), cell))
        return after


class StackEntry(NamedTuple):
    states: States
    as_top: Array
    """[hidden] What the entry adds to the scores' input as S0."""
    as_below: Array | float
    """[hidden] What the entry adds as S1."""
    vector: Array
    """[token] The word vector of the entry."""


class ArrayNetwork:
    """The weights of a network as arrays, and everything that does not depend on sentences. Immutable."""

    def __init__(self, network: StackParser, inventory: Inventory, numbers: Sequence[int]):
        """inventory: that of the network. numbers: [transitions + 1] its numbers of the transitions and of
        `no_op`, in the order that is used here."""
        self.network = network
        order = torch.tensor(numbers)
        effects = (part.tolist() for part in inventory.effects(order))
        self.effects: list[Effects[int]] = [Effects(*each) for each in zip(*effects, strict=True)]
        self.stack, self.buffer, self.history = map(
            ArrayLSTM, (network.stack, network.buffer, network.history)
        )
        weight, bias = self.stack.of_input
        self.word_parts = []
        """The starts of the parts of what words add, except the first part."""
        if network.from_words:
            hidden = network.scores.in_features
            self.word_parts = [len(weight) + word * hidden for word in range(FEATURE_WORDS)]
            weight = torch.cat([weight, network.from_words.weight.detach()])
        self.of_words = weight, F.pad(bias, (0, len(weight) - len(bias)))
        """Weight and bias of what words add to the gates of the stack's LSTM and, with word features, to the
        input of the scores."""
        self.to_buffer = self.buffer.of_input
        self.from_stack, self.stack_bias = array(network.from_stack.weight.T), array(network.from_stack.bias)
        self.from_buffer = array(network.from_buffer.weight.T)
        self.from_history = array(network.from_history.weight.T)
        self.from_words: list[Array] = []
        """[token, hidden] each, for S0, S1 and B0; empty without word features."""
        if network.from_words:
            self.from_words = [array(part.T) for part in network.from_words.weight.chunk(FEATURE_WORDS)]
        self.scores = array(network.scores.weight[order[:-1]].T), array(network.scores.bias[order[:-1]])
        """[hidden, transitions], [transitions]"""
        embeddings = array(network.transition_embeddings.weight[order])
        self.of_transitions = [self.history.project(embedding) for embedding in embeddings]
        """[4 * hidden] What each transition adds to the gates of the history's LSTM."""
        self.first_history = self.history.advance(self.of_transitions[-1], self.history.zeros)
        if network.composition:
            self.join = array(network.composition.join.weight.T)
            self.of_composed = list(array(network.composition.transitions.weight[order]))
        root = array(network.tokens.root)
        self.root = self.entry(root, self.stack.project(root), self.stack.zeros, *self.features(root))

    def features(self, vector: Array) -> tuple[Array | float, Array | float]:
        """[hidden] What a word adds as S0, apart from its state, and what it adds as S1."""
        if not self.from_words:
            return 0.0, 0.0
        return vector.dot(self.from_words[AS_TOP]), vector.dot(self.from_words[AS_BELOW])

    def entry(
        self, vector: Array, gates: Array, below: States, as_top: Array | float, as_below: Array | float
    ) -> StackEntry:
        """The entry of a pushed word. gates, as_top, as_below: the parts that depend on the word alone."""
        states = self.stack.advance(gates, below)
        of_state = states[-1][0].dot(self.from_stack)
        of_state += self.stack_bias
        of_state += as_top
        return StackEntry(states, of_state, as_below, vector)

    def begin(self, table: Tensor) -> ArrayParser:
        """A parser for a sentence. table: [W + 2, token] the vectors of its words, of ROOT and of the end."""
        return (ComposingArrayParser if self.network.composition else ArrayParser)(self, table)


class ArrayParser:
    """One parser without composition: words and buffers do not depend on transitions."""

    def __init__(self, arrays: ArrayNetwork, table: Tensor):
        """table: see `ArrayNetwork.begin`."""
        self._arrays = arrays
        self._history = arrays.first_history
        self._stack = [arrays.root]
        self._table = table.numpy()
        self._take_in(table)

    def _take_in(self, table: Tensor) -> None:
        arrays = self._arrays
        gates, *features = np.split(F.linear(table, *arrays.of_words).numpy(), arrays.word_parts, axis=1)
        from_end = torch.cat([table[-1:], table[:-2].flip(0)])  # [W + 1, token]
        states, outputs = arrays.buffer.zeros, []
        for gates_of_word in F.linear(from_end, *arrays.to_buffer).numpy():
            states = arrays.buffer.advance(gates_of_word, states)
            outputs.append(states[-1][0])
        hidden = torch.from_numpy(np.stack(outputs[::-1]))  # [W + 1, hidden]
        self._fronts = F.linear(hidden, arrays.network.from_buffer.weight).numpy()
        self._pushed: list[tuple[Array, Array | float, Array | float]]
        """For each word, its gates, and what it adds as S0, apart from its state, and as S1."""
        if features:
            as_top, as_below, as_front = features
            self._fronts[:-1] += as_front[:-2]
            self._fronts[-1] += as_front[-1]
            self._pushed = list(zip(gates, as_top, as_below, strict=True))
        else:
            self._pushed = [(gates_of_word, 0.0, 0.0) for gates_of_word in gates]

    def joined(self, front: int) -> Array:
        """[hidden] The input of the scores. front: the number of B0, from 1."""
        stack = self._stack
        joined = self._history[-1][0].dot(self._arrays.from_history)
        joined += stack[-1].as_top
        joined += stack[-2 if len(stack) > 1 else -1].as_below
        joined += self._of_b0(front)
        return np.maximum(joined, 0, out=joined)

    def _of_b0(self, front: int) -> Array:
        """[hidden] What B0 adds."""
        return self._fronts[front - 1]

    def advance(self, transition: int, top: int, front: int) -> None:
        """Take a transition. top: the word on top of the stack afterwards. front: B0 before it."""
        stack, arrays = self._stack, self._arrays
        effects = arrays.effects[transition]
        read, move = effects.stack_read, effects.stack_move
        if move == 1 - read:
            del stack[len(stack) - read :]
            gates, as_top, as_below = self._pushed[top - 1]
            stack.append(arrays.entry(self._table[top - 1], gates, stack[-1].states, as_top, as_below))
        else:
            del stack[len(stack) + move :]
        self._history = arrays.history.advance(arrays.of_transitions[transition], self._history)


class ComposingArrayParser(ArrayParser):
    """One parser with composition, like `ComposingInference`."""

    def _take_in(self, table: Tensor) -> None:
        network, rows = self._arrays.network, torch.arange(len(table))
        buffers = Buffers.of(network, WordVectors(table, rows), torch.tensor([len(table) - 2]))
        of_fronts = (
            part.index_select(0, buffers.row_of_front).unflatten(1, (network.buffer.num_layers, -1)).numpy()
            for part in buffers.states
        )  # [W + 1, layers, hidden] each
        self._states = [list(zip(*layers, strict=True)) for layers in zip(*of_fronts, strict=True)]
        self._table = np.delete(self._table, -2, axis=0)  # [W + 1, token] words and the end
        self._vector = self._table[0]
        """The vector of B0."""
        self._front = self._of_front(1)

    def _of_front(self, front: int) -> Array:
        return self._front_feature(self._states[front - 1])

    def _front_feature(self, states: States) -> Array:
        """[hidden] What B0 adds. states: those of the buffer."""
        added = states[-1][0].dot(self._arrays.from_buffer)
        if self._arrays.from_words:
            added += self._vector.dot(self._arrays.from_words[AS_FRONT])
        return added

    def _of_b0(self, front: int) -> Array:
        return self._front

    def advance(self, transition: int, top: int, front: int) -> None:
        stack, arrays = self._stack, self._arrays
        effects = arrays.effects[transition]
        read, move = effects.stack_read, effects.stack_move
        vectors = [stack[-1].vector, stack[-2 if len(stack) > 1 else -1].vector, self._vector]
        composes = effects.composes
        if composes != Place.NOWHERE:
            pair = np.concatenate([vectors[effects.head], vectors[effects.dependent]])
            composed = np.tanh(pair.dot(arrays.join) + arrays.of_composed[transition])
            if composes == Place.B0:
                self._vector = vectors[Place.B0] = composed
                gates = arrays.buffer.project(composed)
                self._front = self._front_feature(arrays.buffer.advance(gates, self._states[front]))
        if move == 1 - read:
            vector = composed if composes == Place.S0 else vectors[effects.top]
            del stack[len(stack) - read :]
            gates, features = arrays.stack.project(vector), arrays.features(vector)
            stack.append(arrays.entry(vector, gates, stack[-1].states, *features))
        else:
            del stack[len(stack) + move :]
        if effects.buffer_move:
            self._vector = self._table[front]
            self._front = self._of_front(front + 1)
        self._history = arrays.history.advance(arrays.of_transitions[transition], self._history)
