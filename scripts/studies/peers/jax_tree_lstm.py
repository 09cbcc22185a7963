"""The binary Tree-LSTM in JAX, beside ours: the same weights, batches and steps.

python scripts/studies/peers/jax_tree_lstm.py runs/peers/problems/trees

The inner nodes of a tree are computed one after the other by `lax.scan`, children first, and a batch by `vmap`
of that over padded trees. It prints the loss of the first batch, beside the one that our program computes, and
trees per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax_training import NO_LABEL, Batch, arguments_of, bucket, cross_entropy, linear, padded, time_training
from same_work.problem import Array, Problem


class Tree(NamedTuple):
    """Nodes are numbered: leaves from left to right, then inner nodes, children before their parents."""

    words: Array
    labels: Array
    left: Array
    right: Array


def pad(trees: Sequence[Tree]) -> Batch:
    """All trees have as many leaves as the one with the most, so their inner nodes have other numbers."""
    leaves = bucket([len(tree.words) for tree in trees])
    own = [len(tree.words) for tree in trees]
    left, right = (
        padded([_moved(side, count, leaves) for side, count in zip(sides, own, strict=True)], leaves - 1)
        for sides in ([tree.left for tree in trees], [tree.right for tree in trees])
    )
    labels = np.full((len(trees), 2 * leaves - 1), NO_LABEL, np.int32)
    for row, tree, count in zip(labels, trees, own, strict=True):
        row[_moved(np.arange(len(tree.labels)), count, leaves)] = tree.labels
    words = padded([tree.words for tree in trees], leaves)
    return {"words": words, "labels": labels, "left": left, "right": right}


def _moved(nodes: Array, own: int, leaves: int) -> Array:
    """The numbers of nodes of a tree with `own` leaves that is padded to more."""
    return np.where(nodes < own, nodes, nodes + leaves - own)


def loss(weights: Batch, vectors: jax.Array, tree: Batch) -> jax.Array:
    """Of one tree. vectors: [leaves, size]"""
    leaves = len(vectors)
    into, new, out = jnp.split(linear(weights, "leaf", vectors), 3, axis=1)
    of_leaves = _states(jax.nn.sigmoid(into) * jnp.tanh(new), out)  # [leaves, 2 * hidden]

    def join(states: jax.Array, node: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        number, left, right = node
        (hidden_left, cell_left), (hidden_right, cell_right) = (
            jnp.split(states[child], 2) for child in (left, right)
        )
        new, into, out = jnp.split(linear(weights, "gates", jnp.concatenate([hidden_left, hidden_right])), 3)
        forget_left = jax.nn.sigmoid(linear(weights, "forget_left", hidden_left))
        forget_right = jax.nn.sigmoid(linear(weights, "forget_right", hidden_right))
        cell = jax.nn.sigmoid(into) * jnp.tanh(new) + forget_left * cell_left + forget_right * cell_right
        return states.at[number].set(_states(cell, out)), None

    inner = jnp.zeros((leaves - 1, of_leaves.shape[1]))
    nodes = jnp.arange(leaves, 2 * leaves - 1), tree["left"], tree["right"]
    states, _ = jax.lax.scan(join, jnp.concatenate([of_leaves, inner]), nodes)
    hidden, _ = jnp.split(states, 2, axis=1)
    return cross_entropy(linear(weights, "scores", hidden), tree["labels"])


def _states(cell: jax.Array, out: jax.Array) -> jax.Array:
    """[..., 2 * hidden] The hidden and the cell state."""
    return jnp.concatenate([jax.nn.sigmoid(out) * jnp.tanh(cell), cell], axis=-1)


if __name__ == "__main__":
    given = arguments_of(__doc__)
    problem = Problem(given.problem)
    trees = list(map(Tree, *(problem.ragged(name) for name in Tree._fields)))
    time_training(loss, pad, trees, given)
