"""The methods that batch Tree-LSTMs: in a graph, by levels, by hand, by PyTorch's own means, and by messages.

Each is called with the setup and the network, and returns the training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.levels import Integers, batches
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
from parser.speed.tasks.message_training import ACTIVE, NEEDS_CPU, MessageTraining
from parser.speed.tasks.operation_training import (
    AutogradForward,
    Forward,
    GraphForward,
    OperationTraining,
    StaticForward,
    missing_compiler,
    table_optimizer,
)
from parser.speed.tasks.plugin import Setup, method, methods_of
from parser.speed.tasks.tree_lstm.network import BinaryTree, Branch, Leaf, RecordedTreeLSTM, Score, TreeLSTM

TASK = "tree_lstm"
METHODS = methods_of(TASK)


def by_forward(setup: Setup[Any], network: TreeLSTM, forward: Callable[[Any], Forward]) -> OperationTraining:
    return OperationTraining(setup, network, forward, setup.settings.learning_rate)


@method(TASK, "none", "depth", "agenda")
def in_graph(setup: Setup[Any], network: TreeLSTM) -> OperationTraining:
    """Record the trees one after the other, and batch their graph."""
    recorded = RecordedTreeLSTM(network, setup.settings.grain)
    return by_forward(setup, network, GraphForward.by_example(setup, recorded.losses))


@method(TASK, "levels", title="level by level")
def by_levels(setup: Setup[Any], network: TreeLSTM) -> OperationTraining:
    """Run all nodes of equal height together, which are known without recording."""
    recorded = RecordedTreeLSTM(network, setup.settings.grain)
    return by_forward(setup, network, StaticForward(setup, recorded.calls))


@method(TASK, "manual")
def by_hand(setup: Setup[Any], network: TreeLSTM) -> OperationTraining:
    return by_forward(setup, network, AutogradForward(setup, partial(loss_by_depth, network)))


@method(TASK, "vmap", pads=True)
def vmapped(setup: Setup[Any], network: TreeLSTM) -> OperationTraining:
    return by_forward(setup, network, AutogradForward(setup, partial(loss_vmapped, network)))


@method(TASK, "compiled", skip=lambda setup: missing_compiler())
def compiled(setup: Setup[Any], network: TreeLSTM) -> OperationTraining:
    return by_forward(setup, network, AutogradForward(setup, compiled_loss(network)))


@method(TASK, *ACTIVE, skip=lambda setup: None if setup.device.type == "cpu" else NEEDS_CPU)
def by_messages(setup: Setup[Any], network: TreeLSTM) -> MessageTraining:
    """Send a message for each node, with some trees in flight."""
    settings = setup.settings
    updates = Updates(
        partial(Adam, lr=settings.learning_rate),
        settings.update_after,
        in_loop=settings.update_branch_after,
        table_optimizer=partial(table_optimizer, rate=settings.learning_rate),
        backward_weights=settings.backward_weights,
    )
    return MessageTraining(setup, network, TreeMessages(network), updates, ACTIVE[setup.method])


NOTHING = -1
Parents: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A function from the states of left and of right children to those of their parents: hidden and cell states,
[parents, 2 * hidden] each."""


class _Depths(NamedTuple):
    """The nodes of some trees, the deepest first; at each depth first the leaves, then the inner nodes."""

    words: Tensor
    """[leaves]"""
    labels: Tensor
    """[nodes]"""
    leaves: list[int]
    """The number of leaves at each depth."""
    children: list[Tensor]
    """[2 * parents] for each depth except that of the roots: its nodes as positions within the depth, first
    the left child of each parent, then the right children."""


def loss_by_depth(network: TreeLSTM, trees: Sequence[BinaryTree], parents: Parents | None = None) -> Tensor:
    """The loss, summed over all nodes, depth by depth. parents: replaces this module's function for parents.

    The children of the nodes at one depth are exactly the nodes at the next depth. So the depths are run from
    the deepest to the roots, with one call of the cell for each depth, which needs only the states of the
    next depth.
    """
    parents = parents or partial(_parents, network)
    depths = _depths_of(trees, network.words.weight.device)
    gates = linear(network.words(depths.words), network.leaf.weight, network.leaf.bias)
    input_gate, cell_gate, output_gate = gates.chunk(3, dim=1)
    cell = input_gate.sigmoid() * cell_gate.tanh()
    of_leaves = torch.cat([output_gate.sigmoid() * cell.tanh(), cell], dim=1)  # [leaves, 2 * hidden]
    *below_roots, leaf_roots = of_leaves.split(depths.leaves)
    inner = leaf_roots[:0]  # the greatest depth contains only leaves
    hidden = []
    for leaves, children in zip(below_roots, depths.children, strict=True):
        states = torch.cat([leaves, inner])  # [nodes of this depth, 2 * hidden]
        hidden.append(states[:, : network.hidden_size])
        inner = parents(*states.index_select(0, children).chunk(2))
    hidden += [leaf_roots[:, : network.hidden_size], inner[:, : network.hidden_size]]
    scores = linear(torch.cat(hidden), network.scores.weight, network.scores.bias)  # [nodes, labels]
    return F.cross_entropy(scores, depths.labels, reduction="sum")


def _parents(network: TreeLSTM, left: Tensor, right: Tensor) -> Tensor:
    """See `Parents`."""
    (hidden_left, cell_left), (hidden_right, cell_right) = left.chunk(2, dim=1), right.chunk(2, dim=1)
    both = torch.cat([hidden_left, hidden_right], dim=1)
    gates = linear(both, network.gates.weight, network.gates.bias)
    cell_gate, input_gate, output_gate = gates.chunk(3, dim=1)
    forget_left = linear(hidden_left, network.forget_left.weight, network.forget_left.bias)
    forget_right = linear(hidden_right, network.forget_right.weight, network.forget_right.bias)
    cell = input_gate.sigmoid() * cell_gate.tanh()
    cell = cell + forget_left.sigmoid() * cell_left + forget_right.sigmoid() * cell_right
    return torch.cat([output_gate.sigmoid() * cell.tanh(), cell], dim=1)


def _depths_of(trees: Sequence[BinaryTree], device: torch.device) -> _Depths:
    depth = np.concatenate([tree.depth for tree in trees])
    starts = np.cumsum([0, *(len(tree.labels) for tree in trees[:-1])])
    of_nodes = []  # of each tree: the words, left and right children of its nodes, or NOTHING
    for tree, start in zip(trees, starts, strict=True):
        inner, leaf_nodes = np.full(len(tree.left), NOTHING), np.full(len(tree.words), NOTHING)
        sides = (np.concatenate([leaf_nodes, start + side]) for side in (tree.left, tree.right))
        of_nodes.append((np.concatenate([tree.words, inner]), *sides))
    words, left, right = map(np.concatenate, zip(*of_nodes, strict=True))
    position = np.empty_like(depth)  # of each node within its depth
    order, leaves, children = [], [], []
    for level in batches(-depth):
        leaf_nodes, parents = level[words[level] != NOTHING], level[words[level] == NOTHING]
        children.append(position[np.concatenate([left[parents], right[parents]])])
        position[leaf_nodes] = np.arange(len(leaf_nodes))
        position[parents] = np.arange(len(leaf_nodes), len(level))
        order += [leaf_nodes, parents]
        leaves.append(leaf_nodes)
    labels = np.concatenate([tree.labels for tree in trees])
    return _Depths(
        _to(device, words[np.concatenate(leaves)]),
        _to(device, labels[np.concatenate(order)]),
        list(map(len, leaves)),
        [_to(device, positions) for positions in children[1:]],  # the deepest nodes have no children
    )


def _to(device: torch.device, numbers: Integers) -> Tensor:
    return to_device(torch.from_numpy(numbers), device)


def compiled_loss(network: TreeLSTM) -> Callable[[Sequence[BinaryTree]], Tensor]:
    """Return `loss_by_depth` for the network, with a compiled cell. PyTorch compiles it when it is called.

    The loop over depths is not compiled: its length differs by batch, so every length would be compiled.
    """
    branch = Branch(network)

    def parents(left: Tensor, right: Tensor) -> Tensor:
        return torch.cat(branch(*left.chunk(2, dim=1), *right.chunk(2, dim=1)), dim=1)

    return partial(loss_by_depth, network, parents=torch.compile(parents, dynamic=True))


NO_LABEL = -1
"""The label of padding."""


class _Depth(NamedTuple):
    """The nodes of one depth: [trees, nodes] each; [nodes] within `vmap`."""

    is_leaf: Tensor
    leaf: Tensor
    """The number of each node among the leaves of its tree; 0 if it is not a leaf."""
    left: Tensor
    """The index of its left child at the next depth, 0 if it has none; right: of its right child."""
    right: Tensor
    labels: Tensor


def loss_vmapped(network: TreeLSTM, trees: Sequence[BinaryTree]) -> Tensor:
    """The loss, summed over all nodes, written for one tree and vectorized over padded trees.

    A tree is read depth by depth, from the deepest nodes of all trees to the roots. At each depth, all trees
    are padded to the largest number of nodes. Every node computes the states of a parent; leaves do not use
    them.
    """
    device = network.words.weight.device
    depths = [_Depth(*(to_device(part, device) for part in depth)) for depth in _padded_depths(trees)]
    words = nn.utils.rnn.pad_sequence([torch.from_numpy(tree.words) for tree in trees], batch_first=True)
    leaf, branch = Leaf(network), Branch(network)

    def scores(vectors: Tensor, depths: Sequence[_Depth]) -> Tensor:
        """[nodes, labels] The scores for one tree. vectors: [leaves, word_size]"""
        of_leaves = torch.cat(leaf(vectors), dim=1)  # [leaves, 2 * hidden]
        states, hidden = torch.zeros_like(of_leaves[:1]), []
        for depth in depths:
            left, right = (states[side].chunk(2, dim=1) for side in (depth.left, depth.right))
            of_parents = torch.cat(branch(*left, *right), dim=1)  # [nodes of this depth, 2 * hidden]
            states = torch.where(depth.is_leaf[:, None], of_leaves[depth.leaf], of_parents)
            hidden.append(states[:, : network.hidden_size])
        return network.scores(torch.cat(hidden))

    vectors = network.words(to_device(words, device))  # [trees, leaves, word_size]
    all_scores = torch.func.vmap(scores)(vectors, depths).flatten(0, 1)  # [trees * nodes, labels]
    labels = torch.cat([depth.labels for depth in depths], dim=1).flatten()
    return F.cross_entropy(all_scores, labels, ignore_index=NO_LABEL, reduction="sum")


def _padded_depths(trees: Sequence[BinaryTree]) -> list[_Depth]:
    """The nodes of each depth, from the deepest to the roots."""
    sizes, leaves = (
        np.array(list(map(len, parts)))
        for parts in ([each.labels for each in trees], [each.words for each in trees])
    )
    start, tree = sizes.cumsum() - sizes, np.arange(len(trees)).repeat(sizes)
    depth, labels = (
        np.concatenate(parts) for parts in ([each.depth for each in trees], [each.labels for each in trees])
    )
    number = np.arange(len(tree)) - start[tree]  # of each node within its tree
    is_leaf = number < leaves[tree]
    order = np.lexsort((tree, depth))
    begins = np.diff(depth[order], prepend=-1).astype(bool) | np.diff(tree[order], prepend=-1).astype(bool)
    first = np.flatnonzero(begins)
    index = np.empty_like(depth)  # of each node among the nodes of its tree at the same depth
    index[order] = np.arange(len(order)) - first[begins.cumsum() - 1]
    left, right = np.zeros_like(index), np.zeros_like(index)
    for side, children in ((left, [each.left for each in trees]), (right, [each.right for each in trees])):
        side[~is_leaf] = index[np.concatenate(children) + start[tree[~is_leaf]]]

    def padded(nodes: Integers, values: Integers, padding: int) -> Tensor:
        """[trees, nodes] The values of the nodes of one depth, padded."""
        rows = np.full((len(trees), 1 + index[nodes].max()), padding, values.dtype)
        rows[tree[nodes], index[nodes]] = values[nodes]
        return torch.from_numpy(rows)

    leaf = np.where(is_leaf, number, 0)
    parts = (is_leaf, 0), (leaf, 0), (left, 0), (right, 0), (labels, NO_LABEL)
    return [_Depth(*(padded(nodes, *part) for part in parts)) for nodes in batches(-depth)]


ROOT_PLACE = 1
WORDS_PORT, LABELS_PORT = 0, 1
"""Outputs of the controller."""


class TreeMessages:
    """A Tree-LSTM as a graph of messages (Gaunt et al. 2017).

    The words of a tree are one message, and so are the scored states. In between, each node sends its own
    message with the position (place, nodes). The place of the root is 1, and the children of n are at 2n and
    2n + 1; `nodes` is the number of nodes in the tree.
    """

    def __init__(self, network: TreeLSTM):
        self.network = network

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
        nodes, places = len(tree.labels), node_places(tree)
        words = torch.from_numpy(tree.words)
        by_place = sorted(range(nodes), key=places.__getitem__)
        labels = torch.from_numpy(tree.labels)[by_place]
        entries = [
            Entry(WORDS_PORT, (words,), (nodes, *places[: len(words)])),
            Entry(LABELS_PORT, (labels,), (nodes,)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Leaves and scores are on one worker, branches on another if there are two."""
        network, graph = self.network, MessageGraph()
        graph.add(CONTROLLER, Controller(outputs=2))
        graph.add("words", updates.of_table(network.words))
        graph.add("leaf", updates.of(Leaf(network)))
        graph.add("leaves", Ungroup(_states_of_leaves))
        graph.add("branch", updates.of_repeated(Branch(network)), workers - 1)
        graph.add("node", Join())
        graph.add("copies", Broadcast(2))
        by_tree = Group(lambda state: state.at(state.position[1]), lambda group: group.position[0])
        graph.add("all nodes", by_tree)
        graph.add("score", updates.of(Score(network)))
        graph.add("loss", Loss(losses_of))
        graph.chain(CONTROLLER, "words", "leaf", "leaves", "node", "copies")
        # States are routed to their parents: those of left children to 0, of right ones to 1, of roots to 2.
        graph.add("which child", Condition(_left_right_or_root, outputs=3))
        graph.add("from left", ChangeState(_parent, lambda state: _moved(state, 2 * state.position[0])))
        graph.add("from right", ChangeState(_parent, lambda state: _moved(state, 2 * state.position[0] + 1)))
        graph.add("root", Discard())
        graph.add("children", ConcatenatePayloads())
        graph.chain("copies", "which child", "from left", "children", "branch")
        graph.connect(("which child", 1), "from right")
        graph.connect("from right", ("children", 1))
        graph.connect(("which child", 2), "root")
        graph.connect("branch", ("node", 1))
        graph.connect(("copies", 1), "all nodes")
        graph.chain("all nodes", "score", "loss", CONTROLLER)
        graph.connect((CONTROLLER, LABELS_PORT), ("loss", 1))
        return graph


def _states_of_leaves(state: MessageState) -> list[tuple[MessageState, int]]:
    """The states of the leaves, whose places are in the position of the words' message."""
    nodes, *places = state.position
    return [(state.at(place, nodes), 1) for place in places]


def _left_right_or_root(state: MessageState) -> int:
    place = state.position[0]
    return 2 if place == ROOT_PLACE else place % 2


def _parent(state: MessageState) -> MessageState:
    return _moved(state, state.position[0] // 2)


def _moved(state: MessageState, place: int) -> MessageState:
    return state.at(place, *state.position[1:])


def node_places(tree: BinaryTree) -> list[int]:
    """The place of each node; see `TreeMessages`."""
    places = [ROOT_PLACE] * len(tree.labels)
    leaves = len(tree.words)
    for node in reversed(range(leaves, len(places))):
        places[tree.left[node - leaves]] = 2 * places[node]
        places[tree.right[node - leaves]] = 2 * places[node] + 1
    return places
