"""The binary Tree-LSTM in JAX, compared with ours: the same weights, batches and steps.

python scripts/studies/peers/jax_tree_lstm.py runs/peers/problems/trees

`lax.scan` iterates over the depths of a batch, from the deepest nodes to the roots, each padded to the number
of nodes of the widest one. The script prints the loss of the first batch, next to our program's, and trees
per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax_training import NO_LABEL, Batch, cross_entropy, linear, padded, rounded, time_training
from same_work import Array, Problem, argument_parser

DEPTHS, WIDTH, LEAVES = 4, 64, 256
"""The numbers of depths, of nodes at a depth and of leaves are rounded up to multiples of these."""


class Tree(NamedTuple):
    """A binary tree. Nodes are numbered: leaves from left to right, then inner nodes, children first."""

    words: Array
    labels: Array
    left: Array
    right: Array
    depth: Array
    """[nodes] The distance from the root."""


def trees_of(problem: Problem) -> list[Tree]:
    parts = [problem.ragged(name) for name in ("words", "labels", "left", "right")]
    return [Tree(*tree, _depths(tree[2], tree[3])) for tree in zip(*parts, strict=True)]


def _depths(left: Array, right: Array) -> Array:
    depth = np.zeros(2 * len(left) + 1, np.int32)
    for parent, children in reversed(list(enumerate(zip(left, right, strict=True), len(left) + 1))):
        depth[[*children]] = depth[parent] + 1
    return depth


def pad(trees: Sequence[Tree]) -> Batch:
    """Arrays [depths, nodes], the deepest depth first; a node's children are positions at the previous depth.

    `words` are those of all leaves.
    """
    sizes, leaves = np.array(
        [(len(tree_of_batch.labels), len(tree_of_batch.words)) for tree_of_batch in trees]
    ).T
    tree, start = np.arange(len(trees)).repeat(sizes), sizes.cumsum() - sizes
    is_leaf = np.arange(len(tree)) - start[tree] < leaves[tree]
    depth = np.concatenate([tree_of_batch.depth for tree_of_batch in trees])
    order, counts = depth.argsort(kind="stable"), np.bincount(depth)
    position = np.empty_like(order)
    position[order] = np.arange(len(order)) - (counts.cumsum() - counts).repeat(counts)
    shape = rounded(len(counts), DEPTHS), rounded(counts.max(), WIDTH)
    where = len(counts) - 1 - depth, position

    def nodes(values: Array, padding: int = 0) -> Array:
        filled = np.full(shape, padding, np.int32)
        filled[where] = values
        return filled

    def children(sides: Sequence[Array]) -> Array:
        numbers = np.zeros(len(tree), np.int32)
        numbers[~is_leaf] = position[np.concatenate(sides) + start[tree[~is_leaf]]]
        return nodes(numbers)

    return {
        "words": padded(
            [np.concatenate([tree_of_batch.words for tree_of_batch in trees])], rounded(leaves.sum(), LEAVES)
        )[0],
        "is_leaf": nodes(is_leaf),
        "leaf": nodes(np.where(is_leaf, is_leaf.cumsum() - 1, 0)),
        "left": children([tree_of_batch.left for tree_of_batch in trees]),
        "right": children([tree_of_batch.right for tree_of_batch in trees]),
        "labels": nodes(np.concatenate([tree_of_batch.labels for tree_of_batch in trees]), NO_LABEL),
    }


def loss(weights: Batch, vectors: jax.Array, batch: Batch) -> jax.Array:
    """The summed loss of all trees. vectors: [leaves, size]"""
    into, new, out = jnp.split(linear(weights, "leaf", vectors), 3, axis=1)
    of_leaves = _states(jax.nn.sigmoid(into) * jnp.tanh(new), out)  # [leaves, 2 * hidden]

    def step(below: jax.Array, nodes: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        """Compute the states one depth higher, [nodes, 2 * hidden], and their hidden states."""
        is_leaf, leaves, left, right = nodes
        (hidden_left, cell_left), (hidden_right, cell_right) = (
            jnp.split(below[child], 2, axis=1) for child in (left, right)
        )
        both = jnp.concatenate([hidden_left, hidden_right], axis=1)
        new, into, out = jnp.split(linear(weights, "gates", both), 3, axis=1)
        forget_left = jax.nn.sigmoid(linear(weights, "forget_left", hidden_left))
        forget_right = jax.nn.sigmoid(linear(weights, "forget_right", hidden_right))
        cell = jax.nn.sigmoid(into) * jnp.tanh(new) + forget_left * cell_left + forget_right * cell_right
        states = jnp.where(is_leaf[:, None], leaves, _states(cell, out))
        return states, states[:, : states.shape[1] // 2]

    depths = batch["is_leaf"] == 1, of_leaves[batch["leaf"]], batch["left"], batch["right"]
    nothing = jnp.zeros((batch["leaf"].shape[1], of_leaves.shape[1]))
    hidden = jax.lax.scan(step, nothing, depths)[1]  # [depths, nodes, hidden]
    scores = linear(weights, "scores", hidden).reshape(-1, len(weights["scores.bias"]))
    return cross_entropy(scores, batch["labels"].flatten())


def _states(cell: jax.Array, out: jax.Array) -> jax.Array:
    """[..., 2 * hidden] The concatenated hidden and cell states."""
    return jnp.concatenate([jax.nn.sigmoid(out) * jnp.tanh(cell), cell], axis=-1)


if __name__ == "__main__":
    given = argument_parser(__doc__).parse_args()
    problem = Problem(given.problem)
    time_training(loss, pad, trees_of(problem), given)
