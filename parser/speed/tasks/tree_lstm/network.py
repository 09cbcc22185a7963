"""A binary Tree-LSTM (Tai et al. 2015) with a label at every node, in a graph or level by level.

As in Neubig et al. 2017, with tanh for the cell gate u and sigmoid for the others:

    u, i, o from the h of both children;  f_left, f_right from the h of that child
    c = i * u + f_left * c_left + f_right * c_right;  h = o * tanh(c)

A leaf computes i, u, o from its word. `d_x` is the gradient of the loss with respect to x.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from parser.batching.functional import add_product, write_product
from parser.batching.levels import Integers
from parser.batching.lstm import activate_, activation_backward_, cell_state_gradient, tanh
from parser.batching.operations.cells import (
    Grain,
    LSTMStart,
    slices,
    trace_template,
    write_forget,
    write_states,
)
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
    concatenate_kept,
)
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.static_computation import StaticApplications
from parser.batching.operations.template import Index, Template, Writer
from parser.batching.operations.writer import Value, Values
from parser.speed.tasks.operation_training import sparse_table


@dataclass(frozen=True)
class BinaryTree:
    """A binary tree. Nodes are numbered: leaves from left to right, then the inner nodes, children first."""

    words: Integers
    """[leaves]"""
    labels: Integers
    """[nodes]"""
    left: Integers
    """[inner nodes] The left child of each; right: the right child."""
    right: Integers
    height: Integers
    """[inner nodes] The greatest distance from a leaf, at least 1."""
    depth: Integers
    """[nodes] The distance from the root."""


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
    """A Tree-LSTM recorded in a graph tree by tree, or as calls of a static structure for many trees."""

    def __init__(self, network: TreeLSTM, grain: Grain):
        hidden = network.hidden_size

        def start(writer: Writer, word: Index) -> Sequence[Value]:
            vector = writer.lookup(network.words.weight, word, sparse=True)
            gates = writer.linear(network.leaf.weight, vector, bias=network.leaf.bias)
            if grain == "cell":
                return writer.operate(LSTMStart(hidden, gates=3), (gates,))
            input_gate, cell_gate, output_gate = slices(writer, gates, hidden)
            return write_states(writer, input_gate, cell_gate, output_gate)

        def score(writer: Writer, state: Value) -> Value:
            return writer.linear(network.scores.weight, state, bias=network.scores.bias)

        def loss(writer: Writer, state: Value, label: Index) -> Value:
            return writer.cross_entropy(score(writer, state), label)

        self._leaf = trace_template(grain, start, (), indices=1)
        if grain == "cell":
            self._node = Template.of(TreeNode(network), (hidden,) * 4)
        else:
            self._node = Template.trace(_writes_node(network), (hidden,) * 4)
        self._loss = trace_template(grain, loss, (hidden,), indices=1)

    def losses(self, graph: Graph, tree: BinaryTree) -> Values:
        """The losses of all nodes."""
        return graph.each(self._loss, [self._states(graph, tree)], [tree.labels.tolist()])[0]

    def _states(self, graph: Graph, tree: BinaryTree) -> Values:
        """The hidden state of each node."""
        hidden, cell = (list(states.numbers) for states in graph.each(self._leaf, [], [tree.words.tolist()]))
        for left, right in zip(tree.left.tolist(), tree.right.tolist(), strict=True):
            children = Values(graph, (hidden[left], cell[left], hidden[right], cell[right]))
            state = graph.apply(self._node, children).numbers
            hidden.append(state[0])
            cell.append(state[1])
        return Values(graph, hidden)

    def calls(self, trees: Sequence[BinaryTree]) -> tuple[list[StaticApplications], Integers]:
        """The calls for some trees, in the form for `StaticComputation`, and the numbers of the losses.

        The level of a node is its height, which is 0 for leaves. The losses come last.
        """
        sizes = np.array([len(tree.words) for tree in trees])
        leaves, nodes = int(sizes.sum()), int(2 * sizes.sum() - len(trees))
        numbers = _numbers(trees, sizes)
        left, right = (
            np.concatenate([nodes_of[children] for nodes_of, children in zip(numbers, side, strict=True)])
            for side in ([tree.left for tree in trees], [tree.right for tree in trees])
        )
        height = np.concatenate([tree.height for tree in trees])
        labels = np.empty(nodes, np.int64)
        labels[np.concatenate(numbers)] = np.concatenate([tree.labels for tree in trees])
        # The values of node n are 2n, its hidden state, and 2n + 1, its cell state.
        number = np.arange(nodes)
        losses = 2 * nodes + number
        of_children = np.stack([2 * left, 2 * left + 1, 2 * right, 2 * right + 1], 1)
        words = np.concatenate([tree.words for tree in trees])
        nothing = np.empty((nodes, 0), np.int64)
        first, last = np.zeros(leaves, np.int64), np.full(nodes, 1 + sizes.max())
        return [
            StaticApplications(self._leaf, 2 * number[:leaves], nothing[:leaves], words[:, None], first),
            StaticApplications(self._node, 2 * number[leaves:], of_children, nothing[leaves:], height),
            StaticApplications(self._loss, losses, 2 * number[:, None], labels[:, None], last),
        ], losses


def _numbers(trees: Sequence[BinaryTree], sizes: Integers) -> list[Integers]:
    """The numbers of each tree's nodes. The leaves of all trees are numbered first, then all inner nodes."""
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
        cell_gate, input_gate, output_gate = slices(writer, gates, network.hidden_size)
        forgotten = [
            write_forget(writer, writer.linear(forget.weight, child_hidden, bias=forget.bias), child_cell)
            for forget, child_hidden, child_cell in (
                (network.forget_left, hidden_left, cell_left),
                (network.forget_right, hidden_right, cell_right),
            )
        ]
        return write_states(writer, input_gate, cell_gate, output_gate, *forgotten)

    return write


class TreeNode(Operation):
    """Computes the hidden and the cell state of a parent from those of its left and right child."""

    is_product = True
    kept = 2

    def __init__(self, network: TreeLSTM):
        self.network = network
        self._forgets = network.forget_left, network.forget_right
        layers = (network.gates, *self._forgets)
        self.parameters = tuple(parameter for layer in layers for parameter in (layer.weight, layer.bias))
        self.outputs = (network.hidden_size, network.hidden_size)

    def signature(self) -> Hashable:
        return type(self), id(self.network)

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return ((0, 2, 1, 3),)

    def forward(self, batch: OperationBatch) -> None:
        children, child_cells = batch.inputs[0].chunk(
            2, dim=1
        )  # [rows, 2 * hidden] each: hidden, cell states
        hidden, cell = batch.outputs
        network, size = self.network, self.outputs[0]
        # [rows, 5 * hidden]: cell gate, input gate, output gate, both forget gates
        gates = children.new_empty(len(children), 5 * size)
        write_product(gates[:, : 3 * size], children, network.gates.weight, network.gates.bias)
        cell_gate, input_gate, output_gate, *forget_gates = gates.chunk(5, dim=1)
        for linear, child, gate in zip(self._forgets, children.chunk(2, dim=1), forget_gates, strict=True):
            write_product(gate, child, linear.weight, linear.bias)
        activate_(gates, size, cell_gate=0)
        torch.mul(input_gate, cell_gate, out=cell)
        for gate, child_cell in zip(forget_gates, child_cells.chunk(2, dim=1), strict=True):
            cell.addcmul_(gate, child_cell)
        tanh_cell = tanh(cell)
        torch.mul(output_gate, tanh_cell, out=hidden)
        batch.saved = gates, tanh_cell

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        children, child_cells = batch.inputs[0].chunk(2, dim=1)
        gates, tanh_cell = batch.saved
        d_hidden, d_cell = gradients
        network, size = self.network, self.outputs[0]
        cell_gate, input_gate, output_gate, *forget_gates = gates.chunk(5, dim=1)
        d_cell = cell_state_gradient(d_hidden, output_gate, tanh_cell, d_cell)
        d_gates, d_inputs = torch.empty_like(gates), torch.empty_like(batch.inputs[0])
        d_children, d_child_cells = d_inputs.chunk(2, dim=1)
        d_cell_gate, d_input, d_output, *d_forgets = d_gates.chunk(5, dim=1)
        torch.mul(d_cell, cell_gate, out=d_input)
        torch.mul(d_cell, input_gate, out=d_cell_gate)
        torch.mul(d_hidden, tanh_cell, out=d_output)
        for child_cell, d_child_cell, gate, d_gate in zip(
            child_cells.chunk(2, dim=1), d_child_cells.chunk(2, dim=1), forget_gates, d_forgets, strict=True
        ):
            torch.mul(d_cell, child_cell, out=d_gate)
            torch.mul(d_cell, gate, out=d_child_cell)
        activation_backward_(d_gates, gates, size, cell_gate=0)
        write_product(d_children, d_gates[:, : 3 * size], network.gates.weight.T)
        for linear, d_child, d_gate in zip(self._forgets, d_children.chunk(2, dim=1), d_forgets, strict=True):
            add_product(d_child, d_gate, linear.weight.T)
        return OperationGradients((d_inputs,), (d_gates, children))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        d_gates, children = concatenate_kept(batches)
        network, size = self.network, self.outputs[0]
        for linear, d_output, inputs in (
            (network.gates, d_gates[:, : 3 * size], children),
            (network.forget_left, d_gates[:, 3 * size : 4 * size], children[:, :size]),
            (network.forget_right, d_gates[:, 4 * size :], children[:, size:]),
        ):
            gradients.add_product(linear.weight, d_output, inputs)
            gradients.add_sum(linear.bias, d_output)


class Leaf(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.gates = network.leaf

    def forward(self, word: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden and the cell state, [..., hidden] each. word: [..., word_size]"""
        input_gate, cell_gate, output_gate = self.gates(word).chunk(3, dim=-1)
        return _states(input_gate.sigmoid() * cell_gate.tanh(), output_gate)


class Branch(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.gates, self.left, self.right = network.gates, network.forget_left, network.forget_right

    def forward(
        self, hidden_left: Tensor, cell_left: Tensor, hidden_right: Tensor, cell_right: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The hidden and the cell state of the parent. All: [..., hidden]."""
        gates = self.gates(torch.cat([hidden_left, hidden_right], dim=-1))
        cell_gate, input_gate, output_gate = gates.chunk(3, dim=-1)
        forgotten = (
            self.left(hidden_left).sigmoid() * cell_left + self.right(hidden_right).sigmoid() * cell_right
        )
        return _states(input_gate.sigmoid() * cell_gate.tanh() + forgotten, output_gate)


def _states(cell: Tensor, output_gate: Tensor) -> tuple[Tensor, Tensor]:
    return output_gate.sigmoid() * cell.tanh(), cell


class Score(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.scores = network.scores

    def forward(self, hidden: Tensor, cell: Tensor) -> Tensor:
        """[..., labels] hidden, cell: [..., hidden]; the cell state is not used."""
        return self.scores(hidden)
