"""A Tree-LSTM that is written for one tree, and vectorized over padded trees by `torch.func.vmap`.

A tree is read depth by depth, from the deepest nodes of all trees to the roots. At each depth, all trees are
padded to the largest number of nodes. Every node computes the states of a parent; leaves do not use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.levels import Integers, batches
from parser.speed.tasks.tree_lstm.modules import Branch, Leaf
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM

NO_LABEL = -1
"""The label of padding."""


class _Depth(NamedTuple):
    """The nodes of one depth: [trees, nodes] each; [nodes] within `vmap`."""

    is_leaf: Tensor
    leaf: Tensor
    """The number of each node among the leaves of its tree; 0 if it is not a leaf."""
    left: Tensor
    """The place of its left child at the next depth, 0 if it has none; right: of its right child."""
    right: Tensor
    labels: Tensor


def loss_vmapped(network: TreeLSTM, trees: Sequence[BinaryTree]) -> Tensor:
    """The loss, summed over all nodes."""
    device = network.words.weight.device
    depths = [_Depth(*(to_device(part, device) for part in depth)) for depth in _depths_of(trees)]
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
    found = torch.func.vmap(scores)(vectors, depths).flatten(0, 1)
    labels = torch.cat([depth.labels for depth in depths], dim=1).flatten()
    return F.cross_entropy(found, labels, ignore_index=NO_LABEL, reduction="sum")


def _depths_of(trees: Sequence[BinaryTree]) -> list[_Depth]:
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
    is_leaf, place = number < leaves[tree], _places(depth, tree)
    left, right = np.zeros_like(place), np.zeros_like(place)
    for side, children in ((left, [each.left for each in trees]), (right, [each.right for each in trees])):
        side[~is_leaf] = place[np.concatenate(children) + start[tree[~is_leaf]]]

    def padded(nodes: Integers, values: Integers, padding: int) -> Tensor:
        """[trees, nodes] The values of the nodes of one depth, padded."""
        rows = np.full((len(trees), 1 + place[nodes].max()), padding, values.dtype)
        rows[tree[nodes], place[nodes]] = values[nodes]
        return torch.from_numpy(rows)

    leaf = np.where(is_leaf, number, 0)
    parts = (is_leaf, 0), (leaf, 0), (left, 0), (right, 0), (labels, NO_LABEL)
    return [_Depth(*(padded(nodes, *part) for part in parts)) for nodes in batches(-depth)]


def _places(depth: Integers, tree: Integers) -> Integers:
    """[nodes] The place of each node among the nodes of its tree at the same depth."""
    order = np.lexsort((tree, depth))
    begins = np.diff(depth[order], prepend=-1).astype(bool) | np.diff(tree[order], prepend=-1).astype(bool)
    first = np.flatnonzero(begins)
    places = np.empty_like(depth)
    places[order] = np.arange(len(order)) - first[begins.cumsum() - 1]
    return places
