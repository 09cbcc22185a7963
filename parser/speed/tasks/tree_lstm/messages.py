"""A binary Tree-LSTM as a graph of messages (Gaunt et al. 2017).

The words of a tree are one message, and so are the scored states. In between, each node sends its own message
with the position (place, nodes). The place of the root is 1, and the children of n are at 2n and 2n + 1;
`nodes` is the number of nodes in the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from parser.batching.device import to_device
from parser.batching.messages.asynchronous_updates import Updates
from parser.batching.messages.control_flow import (
    Broadcast,
    ChangeState,
    ConcatenatePayloads,
    Condition,
    Discard,
    Group,
    Join,
    Ungroup,
)
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Losses,
    MessageGraph,
    MessageState,
    losses_of,
)
from parser.batching.messages.workers import Controller, Entry, Instance
from parser.speed.tasks.tree_lstm.modules import Branch, Leaf, Score
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM

ROOT_PLACE = 1
WORDS_PORT, LABELS_PORT = 0, 1
"""Outputs of the controller."""


class TreeMessages:
    def __init__(self, network: TreeLSTM):
        self.network = network

    def replicas(self) -> Sequence[Sequence[nn.Module]]:
        """No replicas."""
        return ()

    def losses(self, tree: BinaryTree) -> Losses:
        """The losses of all nodes, computed node by node."""
        leaf, branch, score = Leaf(self.network), Branch(self.network), Score(self.network)
        device = self.network.words.weight.device
        words = self.network.words(to_device(torch.from_numpy(tree.words), device))  # [leaves, word_size]
        states = [leaf(word[None]) for word in words]
        for left, right in zip(tree.left.tolist(), tree.right.tolist(), strict=True):
            states.append(branch(*states[left], *states[right]))
        scores = torch.cat([score(*state) for state in states])  # [nodes, labels]
        return losses_of(scores, to_device(torch.from_numpy(tree.labels), device))

    def instance(self, number: int, tree: BinaryTree, training: bool) -> Instance:
        nodes, own = len(tree.labels), node_places(tree)
        words = torch.from_numpy(tree.words)
        by_place = sorted(range(nodes), key=own.__getitem__)
        labels = torch.from_numpy(tree.labels)[by_place]
        entries = [
            Entry(WORDS_PORT, (words,), (nodes, *own[: len(words)])),
            Entry(LABELS_PORT, (labels,), (nodes,)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Leaves and scores are on one worker, branches on another if there are two."""
        network, graph = self.network, MessageGraph()
        graph.add(CONTROLLER, Controller(outputs=2))
        graph.add("words", updates.of_table(network.words))
        graph.add("leaf", updates.of(Leaf(network)))
        graph.add("leaves", Ungroup(_leaves))
        graph.add("branch", updates.of_repeated(Branch(network)), workers - 1)
        graph.add("node", Join())
        graph.add("copies", Broadcast(2))
        graph.add("all nodes", Group(lambda state: state.at(state.position[1]), _nodes))
        graph.add("score", updates.of(Score(network)))
        graph.add("loss", Loss(losses_of))
        graph.chain(CONTROLLER, "words", "leaf", "leaves", "node", "copies")
        _add_bottom_up(graph)
        graph.connect("branch", ("node", 1))
        graph.connect(("copies", 1), "all nodes")
        graph.chain("all nodes", "score", "loss", CONTROLLER)
        graph.connect((CONTROLLER, LABELS_PORT), ("loss", 1))
        return graph


def _add_bottom_up(graph: MessageGraph) -> None:
    """Add the nodes from `copies` to `branch`, which route states to their parents."""
    graph.add("which child", Condition(_left_right_or_root, outputs=3))
    graph.add("from left", ChangeState(_parent, lambda state: _moved(state, 2 * state.position[0])))
    graph.add("from right", ChangeState(_parent, lambda state: _moved(state, 2 * state.position[0] + 1)))
    graph.add("root", Discard())
    graph.add("children", ConcatenatePayloads())
    graph.chain("copies", "which child", "from left", "children", "branch")
    graph.connect(("which child", 1), "from right")
    graph.connect("from right", ("children", 1))
    graph.connect(("which child", 2), "root")


def _leaves(state: MessageState) -> list[tuple[MessageState, int]]:
    """The states of the leaves, whose places are in the position of the words' message."""
    nodes, *own = state.position
    return [(state.at(place, nodes), 1) for place in own]


def _nodes(state: MessageState) -> int:
    (nodes,) = state.position
    return nodes


def _left_right_or_root(state: MessageState) -> int:
    place = state.position[0]
    return 2 if place == ROOT_PLACE else place % 2


def _parent(state: MessageState) -> MessageState:
    return _moved(state, state.position[0] // 2)


def _moved(state: MessageState, place: int) -> MessageState:
    return state.at(place, *state.position[1:])


def node_places(tree: BinaryTree) -> list[int]:
    """The place of each node; see the docstring of this module."""
    found = [ROOT_PLACE] * len(tree.labels)
    leaves = len(tree.words)
    for node in reversed(range(leaves, len(found))):
        found[tree.left[node - leaves]] = 2 * found[node]
        found[tree.right[node - leaves]] = 2 * found[node] + 1
    return found
