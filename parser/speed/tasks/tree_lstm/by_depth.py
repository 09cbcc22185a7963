"""A Tree-LSTM batched by hand, depth by depth, in plain PyTorch.

The children of the nodes at one depth are exactly the nodes at the next depth. So the depths are run from
the deepest to the roots, with one call of the cell for each depth, which needs only the states of the next
depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.levels import Integers, batches
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM

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
    """The loss, summed over all nodes. parents: replaces this module's function for parents."""
    parents = parents or partial(_parents, network)
    depths = _depths_of(trees, network.words.weight.device)
    *below_roots, leaf_roots = _leaves(network, depths.words).split(depths.leaves)
    inner = leaf_roots[:0]  # the greatest depth contains only leaves
    hidden = []
    for leaves, children in zip(below_roots, depths.children, strict=True):
        states = torch.cat([leaves, inner])  # [nodes of this depth, 2 * hidden]
        hidden.append(states[:, : network.hidden_size])
        inner = parents(*states.index_select(0, children).chunk(2))
    hidden += [leaf_roots[:, : network.hidden_size], inner[:, : network.hidden_size]]
    scores = linear(torch.cat(hidden), network.scores.weight, network.scores.bias)  # [nodes, labels]
    return F.cross_entropy(scores, depths.labels, reduction="sum")


def _leaves(network: TreeLSTM, words: Tensor) -> Tensor:
    """[leaves, 2 * hidden] Hidden and cell states."""
    gates = linear(network.words(words), network.leaf.weight, network.leaf.bias)
    input_gate, cell_gate, output_gate = gates.chunk(3, dim=1)
    cell = input_gate.sigmoid() * cell_gate.tanh()
    return torch.cat([output_gate.sigmoid() * cell.tanh(), cell], dim=1)


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
    by_node = [_by_node(tree, start) for tree, start in zip(trees, starts, strict=True)]
    words, left, right = map(np.concatenate, zip(*by_node, strict=True))
    position = np.empty_like(depth)  # of each node within its depth
    order, leaves, children = [], [], []
    for level in batches(-depth):
        own_leaves, parents = level[words[level] != NOTHING], level[words[level] == NOTHING]
        children.append(position[np.concatenate([left[parents], right[parents]])])
        position[own_leaves] = np.arange(len(own_leaves))
        position[parents] = np.arange(len(own_leaves), len(level))
        order += [own_leaves, parents]
        leaves.append(own_leaves)
    labels = np.concatenate([tree.labels for tree in trees])
    return _Depths(
        _to(device, words[np.concatenate(leaves)]),
        _to(device, labels[np.concatenate(order)]),
        list(map(len, leaves)),
        [_to(device, own) for own in children[1:]],  # the deepest nodes have no children
    )


def _by_node(tree: BinaryTree, start: int) -> tuple[Integers, Integers, Integers]:
    """[nodes] The word, the left child and the right child of each node, NOTHING if it has none.

    start: the number of the tree's first node.
    """
    inner, leaves = np.full(len(tree.left), NOTHING), np.full(len(tree.words), NOTHING)
    left, right = (np.concatenate([leaves, start + side]) for side in (tree.left, tree.right))
    return np.concatenate([tree.words, inner]), left, right


def _to(device: torch.device, numbers: Integers) -> Tensor:
    return to_device(torch.from_numpy(numbers), device)
