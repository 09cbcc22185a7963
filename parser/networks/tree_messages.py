"""A binary Tree-LSTM as a graph of messages (Gaunt et al. 2017): one for each node of a tree.

The state's position is the node's number in its tree: the root is 1, the children of n are 2n and 2n + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.grouping import Concatenate
from parser.batching.messages.message import State
from parser.batching.messages.routing import Broadcast, ChangeState, Condition, Join
from parser.batching.messages.transforms import Loss, Losses, Updates
from parser.batching.transfer import to_device
from parser.networks.digit_classifier import losses_of
from parser.networks.tree_lstm import Tree, TreeLSTM

ROOT = 1
WORDS, LABELS = 0, 1
"""The controller's outputs."""


class TreeMessages:
    def __init__(self, network: TreeLSTM):
        self.network = network

    def replicas(self) -> Sequence[Sequence[nn.Module]]:
        """There are none."""
        return ()

    def losses(self, tree: Tree) -> Losses:
        """Of all nodes, one after the other."""
        leaf, branch, score = Leaf(self.network), Branch(self.network), Score(self.network)
        device = self.network.words.weight.device
        words = self.network.words(to_device(torch.from_numpy(tree.words), device))  # [leaves, word_size]
        states = [leaf(word[None]) for word in words]
        for left, right in zip(tree.left.tolist(), tree.right.tolist(), strict=True):
            states.append(branch(*states[left], *states[right]))
        scores = torch.cat([score(*state) for state in states])  # [nodes, labels]
        return losses_of(scores, to_device(torch.from_numpy(tree.labels), device))

    def instance(self, number: int, tree: Tree, training: bool) -> Instance:
        words = [
            Entry(WORDS, (word[None],), (place,))
            for word, place in zip(torch.from_numpy(tree.words), places(tree), strict=False)
        ]
        labels = [
            Entry(LABELS, (label[None],), (place,))
            for label, place in zip(torch.from_numpy(tree.labels), places(tree), strict=True)
        ]
        return Instance(number, [*words, *labels], len(labels), training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Leaves and what scores all nodes are on one worker, branches on another, if there is one."""
        network, graph = self.network, MessageGraph()
        graph.add(CONTROLLER, Controller(outputs=2))
        graph.add("words", updates.of_table(network.words))
        graph.add("leaf", updates.of_repeated(Leaf(network)))
        graph.add("branch", updates.of_repeated(Branch(network)), workers - 1)
        graph.add("node", Join())
        graph.add("is root", Condition(lambda state: int(state.position[0] == ROOT)))
        graph.add("score", updates.of_repeated(Score(network)))
        graph.add("loss", Loss(losses_of))
        graph.chain(CONTROLLER, "words", "leaf", "node", "is root")
        graph.connect("branch", ("node", 1))
        _add_way_up(graph)
        graph.connect(("is root", 1), ("scored", 1))
        graph.chain("scored", "score", "loss", CONTROLLER)
        graph.connect((CONTROLLER, LABELS), ("loss", 1))
        return graph


def _add_way_up(graph: MessageGraph) -> None:
    """From `is root` to `branch`, with a copy to `scored`."""
    graph.add("copies", Broadcast(2))
    graph.add("scored", Join())
    graph.add("which child", Condition(lambda state: state.position[0] % 2))
    graph.add("from left", ChangeState(_parent, lambda state: state.at(2 * state.position[0])))
    graph.add("from right", ChangeState(_parent, lambda state: state.at(2 * state.position[0] + 1)))
    graph.add("children", Concatenate())
    graph.chain("is root", "copies", "which child", "from left", "children", "branch")
    graph.connect(("which child", 1), "from right")
    graph.connect("from right", ("children", 1))
    graph.connect(("copies", 1), "scored")


def _parent(state: State) -> State:
    return state.at(state.position[0] // 2)


def places(tree: Tree) -> list[int]:
    """Of each node, its number by which parents and children find each other."""
    found = [ROOT] * len(tree.labels)
    leaves = len(tree.words)
    for node in reversed(range(leaves, len(found))):
        found[tree.left[node - leaves]] = 2 * found[node]
        found[tree.right[node - leaves]] = 2 * found[node] + 1
    return found


class Leaf(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.gates = network.leaf

    def forward(self, word: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden and cell state, [rows, hidden] each. word: [rows, word_size]"""
        into, new, out = self.gates(word).chunk(3, dim=1)
        return _states(into.sigmoid() * new.tanh(), out)


class Branch(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.gates, self.left, self.right = network.gates, network.forget_left, network.forget_right

    def forward(
        self, hidden_left: Tensor, cell_left: Tensor, hidden_right: Tensor, cell_right: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Hidden and cell state. All: [rows, hidden]."""
        new, into, out = self.gates(torch.cat([hidden_left, hidden_right], dim=1)).chunk(3, dim=1)
        kept = self.left(hidden_left).sigmoid() * cell_left + self.right(hidden_right).sigmoid() * cell_right
        return _states(into.sigmoid() * new.tanh() + kept, out)


def _states(cell: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    return out.sigmoid() * cell.tanh(), cell


class Score(nn.Module):
    def __init__(self, network: TreeLSTM):
        super().__init__()
        self.scores = network.scores

    def forward(self, hidden: Tensor, cell: Tensor) -> Tensor:
        """[rows, labels] hidden, cell: [rows, hidden], of which the latter says nothing of the label."""
        return self.scores(hidden)
