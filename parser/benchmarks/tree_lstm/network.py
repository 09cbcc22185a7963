"""A binary Tree-LSTM (Tai et al. 2015) with a label at every node, in a graph and level by level.

As in Neubig et al. 2017: u with tanh, the others with sigmoid,

    u, i, o = from both children's h;  f_left, f_right = from that child's h
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
from parser.batching.levels import Integers
from parser.batching.lstm_cell import activate_, through_activations_, through_tanh
from parser.batching.operations.graph import Graph
from parser.batching.operations.layout import Applications
from parser.batching.operations.lstm import Grain, LSTMStart, slices, write_kept, write_states, written
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
from parser.batching.product import add_product, write_product
from parser.benchmarks.embedding_tables import sparse_table


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
        self.words = sparse_table(words, word_size)
        self.leaf = nn.Linear(word_size, 3 * hidden_size)
        self.gates = nn.Linear(2 * hidden_size, 3 * hidden_size)
        self.forget_left, self.forget_right = (nn.Linear(hidden_size, hidden_size) for _ in range(2))
        self.scores = nn.Linear(hidden_size, labels)


class RecordedTreeLSTM:
    """In a graph, tree by tree, or for many trees at once as calls known in advance."""

    def __init__(self, network: TreeLSTM, grain: Grain):
        hidden = network.hidden_size

        def start(writer: Writer, word: Index) -> tuple[Value, ...]:
            vector = writer.lookup(network.words.weight, word, sparse=True)
            gates = writer.linear(network.leaf.weight, vector, bias=network.leaf.bias)
            if grain == "cell":
                return tuple(writer.operate(LSTMStart(hidden, gates=3), (gates,)))
            into, new, out = slices(writer, gates, hidden)
            return write_states(writer, into, new, out)

        def score(writer: Writer, state: Value) -> Value:
            return writer.linear(network.scores.weight, state, bias=network.scores.bias)

        def loss(writer: Writer, state: Value, label: Index) -> Value:
            return writer.cross_entropy(score(writer, state), label)

        self._leaf = written(grain, start, (), indices=1)
        if grain == "cell":
            self._node = Template.of(TreeNode(network), (hidden,) * 4)
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
        """The calls for some trees, as `StaticComputation` takes them, and the numbers of the losses.

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
    def write(
        writer: Writer, hidden_left: Value, cell_left: Value, hidden_right: Value, cell_right: Value
    ) -> tuple[Value, Value]:
        gates = writer.linear(network.gates.weight, hidden_left, hidden_right, bias=network.gates.bias)
        new, into, out = slices(writer, gates, network.hidden_size)
        kept = [
            write_kept(writer, writer.linear(forget.weight, hidden_below, bias=forget.bias), cell_below)
            for forget, hidden_below, cell_below in (
                (network.forget_left, hidden_left, cell_left),
                (network.forget_right, hidden_right, cell_right),
            )
        ]
        return write_states(writer, into, new, out, *kept)

    return write


class TreeNode(Operation):
    """From the hidden and cell states of the left and of the right child to those of their parent."""

    is_product = True
    kept = 2

    def __init__(self, network: TreeLSTM):
        self.network = network
        self._forgets = network.forget_left, network.forget_right
        self.outputs = (network.hidden_size, network.hidden_size)

    def signature(self) -> Hashable:
        return type(self), id(self.network)

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return (0, 2), (1, 3)

    def forward(self, batch: Batch) -> None:
        below, cells = batch.inputs  # [rows, 2 * hidden] each
        hidden, cell = batch.outputs
        network, size = self.network, self.outputs[0]
        # The new cell state, the input gate, the output gate, both that forget: [rows, hidden] each
        gates = below.new_empty(len(below), 5 * size)
        write_product(gates[:, : 3 * size], below, network.gates.weight, network.gates.bias)
        new, into, out, *forgets = gates.chunk(5, dim=1)
        for linear, child, forget in zip(self._forgets, below.chunk(2, dim=1), forgets, strict=True):
            write_product(forget, child, linear.weight, linear.bias)
        activate_(gates, size, new=0)
        torch.mul(into, new, out=cell)
        for forget, cell_below in zip(forgets, cells.chunk(2, dim=1), strict=True):
            cell.addcmul_(forget, cell_below)
        squashed = tanh(cell)
        torch.mul(out, squashed, out=hidden)
        batch.saved = gates, squashed

    def backward(self, batch: Batch, gradients: Sequence[Tensor]) -> Gradients:
        below, cells = batch.inputs
        gates, squashed = batch.saved
        at_hidden, at_cell = gradients
        network, size = self.network, self.outputs[0]
        new, into, out, *forgets = gates.chunk(5, dim=1)
        at_cell = through_tanh(at_hidden, out, squashed, at_cell)
        at_gates, at_cells = torch.empty_like(gates), torch.empty_like(cells)
        at_new, at_into, at_out, *at_forgets = at_gates.chunk(5, dim=1)
        torch.mul(at_cell, new, out=at_into)
        torch.mul(at_cell, into, out=at_new)
        torch.mul(at_hidden, squashed, out=at_out)
        for cell_below, at_cell_below, forget, at_forget in zip(
            cells.chunk(2, dim=1), at_cells.chunk(2, dim=1), forgets, at_forgets, strict=True
        ):
            torch.mul(at_cell, cell_below, out=at_forget)
            torch.mul(at_cell, forget, out=at_cell_below)
        through_activations_(at_gates, gates, size, new=0)
        at_below = torch.empty_like(below)
        write_product(at_below, at_gates[:, : 3 * size], network.gates.weight.T)
        for linear, at_child, at_forget in zip(
            self._forgets, at_below.chunk(2, dim=1), at_forgets, strict=True
        ):
            add_product(at_child, at_forget, linear.weight.T)
        return Gradients((at_below, at_cells), (at_gates, below))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]]) -> None:
        at_gates, below = joined(batches)
        network, size = self.network, self.outputs[0]
        for linear, at_output, inputs in (
            (network.gates, at_gates[:, : 3 * size], below),
            (network.forget_left, at_gates[:, 3 * size : 4 * size], below[:, :size]),
            (network.forget_right, at_gates[:, 4 * size :], below[:, size:]),
        ):
            add_product_gradient(linear.weight, at_output, inputs)
            add_sum_gradient(linear.bias, at_output)
