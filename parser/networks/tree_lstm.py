"""A binary Tree-LSTM (Tai et al. 2015) with a label at every node, in a graph and level by level.

As in Neubig et al. 2017: with gates in torch's order, that of the new cell tanh, the others sigmoid,

    i, u, o = from both children's h;  f_left, f_right = from that child's h
    c = i * u + f_left * c_left + f_right * c_right;  h = o * tanh(c)

and leaves have i, u, o from their word.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from parser.batching.activations import tanh
from parser.batching.operations.graph import Graph
from parser.batching.operations.layout import Applications, Integers
from parser.batching.operations.operation import (
    Batch,
    Gradients,
    Operation,
    add_product_gradient,
    add_sum_gradient,
    joined,
)
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Index, Value, Writer
from parser.batching.product import times_transposed
from parser.networks.lstm_cell import activate_
from parser.networks.lstm_operations import Grain, LSTMStart, gate_gradients, written


@dataclass(frozen=True)
class Tree:
    """A binary tree, its nodes numbered: the leaves from left to right, then the others, children first."""

    words: Integers
    """[leaves]"""
    labels: Integers
    """[nodes]"""
    left: Integers
    """[nodes that are no leaves] Their left children; right: their right ones."""
    right: Integers
    height: Integers
    """[nodes that are no leaves] The longest way down to a leaf, 1 at least."""


class TreeLSTM(nn.Module):
    def __init__(self, words: int, labels: int, word_size: int, hidden_size: int):
        super().__init__()
        self.hidden_size = hidden_size
        self.words = nn.Parameter(0.1 * torch.randn(words, word_size))
        self.leaf = nn.Linear(word_size, 3 * hidden_size)
        self.left, self.right = (nn.Linear(hidden_size, 4 * hidden_size) for _ in range(2))
        self.scores = nn.Linear(hidden_size, labels)


class RecordedTreeLSTM:
    """In a graph, tree by tree, or for many trees at once as calls known in advance."""

    def __init__(self, network: TreeLSTM, grain: Grain):
        hidden = network.hidden_size

        def start(writer: Writer, word: Index) -> tuple[Value, ...]:
            vector = writer.lookup(network.words, word)
            gates = writer.linear(network.leaf.weight, vector, bias=network.leaf.bias)
            if grain == "cell":
                return tuple(writer.operate(LSTMStart(hidden, gates=3), (gates,)))
            into, new, out = (writer.slice(gates, place * hidden, (place + 1) * hidden) for place in range(3))
            cell = writer.multiply(writer.sigmoid(into), writer.tanh(new))
            return writer.multiply(writer.sigmoid(out), writer.tanh(cell)), cell

        def score(writer: Writer, state: Value) -> Value:
            return writer.linear(network.scores.weight, state, bias=network.scores.bias)

        def loss(writer: Writer, state: Value, label: Index) -> Value:
            return writer.cross_entropy(score(writer, state), label)

        self._leaf = written(grain, start, (), indices=1)
        if grain == "cell":
            self._node = Template.of(TreeNode(network.left, network.right), (hidden,) * 4)
        else:
            self._node = Template.trace(_writes_node(network), (hidden,) * 4)
        self._score = written(grain, score, (hidden,))
        self._loss = written(grain, loss, (hidden,), indices=1)

    def losses(self, graph: Graph, tree: Tree) -> Sequence[Value]:
        """Of each node."""
        return graph.each(self._loss, [self._states(graph, tree)], [tree.labels.tolist()])[0]

    def scores(self, graph: Graph, tree: Tree) -> Value:
        """Of the root, those of all labels."""
        return graph.apply(self._score, self._states(graph, tree)[-1:])[0]

    def _states(self, graph: Graph, tree: Tree) -> list[Value]:
        """The hidden state of each node."""
        hidden, cell = map(list, graph.each(self._leaf, [], [tree.words.tolist()]))
        for left, right in zip(tree.left.tolist(), tree.right.tolist(), strict=True):
            state = graph.apply(self._node, (hidden[left], cell[left], hidden[right], cell[right]))
            hidden.append(state[0])
            cell.append(state[1])
        return hidden

    def calls(self, trees: Sequence[Tree], by_height: bool) -> tuple[list[Applications], Integers]:
        """All that is to be computed for some trees, as `KnownComputation` takes it, and the losses' numbers.

        Leaves have level 0. A node's level is its height; or else its place in its tree, column by column, as
        one pads. The losses come last.
        """
        sizes = np.array([len(tree.words) for tree in trees])
        leaves, nodes = int(sizes.sum()), int(2 * sizes.sum() - len(trees))
        numbers = _numbers(
            trees, sizes
        )  # of each tree's nodes: first the leaves of all, then the others of all
        left, right = (
            np.concatenate([own[children] for own, children in zip(numbers, side, strict=True)])
            for side in ([tree.left for tree in trees], [tree.right for tree in trees])
        )
        height = [tree.height if by_height else np.arange(1, len(tree.words)) for tree in trees]
        labels = np.empty(nodes, np.int64)
        labels[np.concatenate(numbers)] = np.concatenate([tree.labels for tree in trees])
        # Node n gives values 2n, its hidden state, and 2n + 1, its cell state.
        number = np.arange(nodes)
        losses = 2 * nodes + number
        of_children = np.stack([2 * left, 2 * left + 1, 2 * right, 2 * right + 1], 1)
        words = np.concatenate([tree.words for tree in trees])
        nothing = np.empty((nodes, 0), np.int64)
        first, last = np.zeros(leaves, np.int64), np.full(nodes, 1 + sizes.max())
        return [
            Applications(self._leaf, 2 * number[:leaves], nothing[:leaves], words[:, None], first),
            Applications(
                self._node, 2 * number[leaves:], of_children, nothing[leaves:], np.concatenate(height)
            ),
            Applications(self._loss, losses, 2 * number[:, None], labels[:, None], last),
        ], losses


def _numbers(trees: Sequence[Tree], sizes: Integers) -> list[Integers]:
    """Of each tree's nodes, if the leaves of all trees come first, and then the other nodes of all."""
    leaf = sizes.cumsum() - sizes
    other = sizes.sum() + (sizes - 1).cumsum() - (sizes - 1)
    return [
        np.concatenate([np.arange(a, a + size), np.arange(b, b + size - 1)])
        for a, b, size in zip(leaf.tolist(), other.tolist(), sizes.tolist(), strict=True)
    ]


def _writes_node(network: TreeLSTM) -> Callable[..., tuple[Value, Value]]:
    size = network.hidden_size

    def write(
        writer: Writer, hidden_left: Value, cell_left: Value, hidden_right: Value, cell_right: Value
    ) -> tuple[Value, Value]:
        from_left = writer.linear(network.left.weight, hidden_left, bias=network.left.bias)
        from_right = writer.linear(network.right.weight, hidden_right, bias=network.right.bias)
        gates = writer.add(from_left, from_right)
        into = writer.sigmoid(writer.slice(gates, 0, size))
        forget_left, forget_right = (
            writer.sigmoid(writer.slice(own, size, 2 * size)) for own in (from_left, from_right)
        )
        new = writer.tanh(writer.slice(gates, 2 * size, 3 * size))
        out = writer.sigmoid(writer.slice(gates, 3 * size, 4 * size))
        kept = writer.add(writer.multiply(forget_left, cell_left), writer.multiply(forget_right, cell_right))
        cell = writer.add(writer.multiply(into, new), kept)
        return writer.multiply(out, writer.tanh(cell)), cell

    return write


class TreeNode(Operation):
    """From the hidden and cell states of the left and of the right child to those of their parent."""

    is_product = True
    kept = 4

    def __init__(self, left: nn.Linear, right: nn.Linear):
        """From hidden to 4 * hidden each, gates in torch's order."""
        self.left, self.right = left, right
        self.outputs = (left.in_features, left.in_features)

    def signature(self) -> Hashable:
        return type(self), id(self.left), id(self.right)

    def forward(self, batch: Batch) -> None:
        hidden_left, cell_left, hidden_right, cell_right = batch.inputs
        hidden, cell = batch.outputs
        size = self.outputs[0]
        gates = times_transposed(hidden_left, self.left.weight, self.left.bias)
        from_right = times_transposed(hidden_right, self.right.weight, self.right.bias)
        gates[:, :size] += from_right[:, :size]
        gates[:, 2 * size :] += from_right[:, 2 * size :]
        activate_(gates)
        into, forget_left, new, out = gates.chunk(4, dim=1)
        forget_right = from_right[:, size : 2 * size].sigmoid()
        torch.mul(into, new, out=cell).addcmul_(forget_left, cell_left).addcmul_(forget_right, cell_right)
        squashed = tanh(cell)
        torch.mul(out, squashed, out=hidden)
        batch.saved = gates, forget_right, squashed

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        hidden_left, cell_left, hidden_right, cell_right = batch.inputs
        gates, forget_right, squashed = batch.saved
        size = self.outputs[0]
        at_left, at_cell = gate_gradients(gates, squashed, cell_left, *gradients)
        at_right = at_left.clone()
        slope = forget_right - forget_right * forget_right
        torch.mul(at_cell * cell_right, slope, out=at_right[:, size : 2 * size])
        at_inputs = (
            times_transposed(at_left, self.left.weight.T),
            at_cell * gates[:, size : 2 * size],
            times_transposed(at_right, self.right.weight.T),
            at_cell * forget_right,
        )
        return Gradients(at_inputs, (at_left, hidden_left, at_right, hidden_right))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        at_left, hidden_left, at_right, hidden_right = joined(batches)
        for child, at_gates, hidden in (
            (self.left, at_left, hidden_left),
            (self.right, at_right, hidden_right),
        ):
            add_product_gradient(child.weight, at_gates, hidden)
            add_sum_gradient(child.bias, at_gates)
