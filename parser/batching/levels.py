"""The schedule of every structure that is known in advance (Suarez & Zhu 2017, section 3).

A structure is nodes, each a call of some kind, and which of them uses which. A labelling gives every node a
level; nodes of one level use none of each other, so those of equal level and kind run as one call. With p
kinds there are at most p calls a level, and there are several labellings:

- the height, the greatest distance from a leaf, lowest first: everything runs as soon as it can;
- the greatest distance from a root, deepest first: everything runs as late as it can: the paper's
  improved sort;
- the place in its own structure's order, column by column (the paper's standard sort).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def heights(nodes: int, used: Integers, user: Integers) -> Integers:
    """[nodes] The greatest distance of each from a leaf, a node that uses no other.

    used, user: [edges] the node `user[i]` uses `used[i]`. Raises ValueError for a cycle.
    """
    level = np.zeros(nodes, np.int64)
    for distance in range(1, nodes + 1):
        if not len(used):
            return level
        # Only an edge whose lower end was raised just now can raise its upper end further.
        level[user] = distance
        raised = level[used] == distance
        used, user = used[raised], user[raised]
    if len(used):
        raise ValueError("a cycle: a node that uses itself, if only by others, can not be computed")
    return level


def depths(nodes: int, used: Integers, user: Integers) -> Integers:
    """[nodes] The greatest distance of each from a root, a node that no other uses; see `heights`."""
    return heights(nodes, user, used)


def batches(*keys: NDArray[Any]) -> list[Integers]:
    """Nodes that are equal in all keys, together, by their places; keys: [nodes] each, as level and kind.

    In the order of the first key, then of the next; within a batch in the order of their places.
    """
    order = in_order(*keys)
    changes = np.zeros(max(0, len(order) - 1), bool)
    for key in keys:
        changes |= np.diff(key[order]) != 0
    return np.split(order, np.flatnonzero(changes) + 1) if len(order) else []


def in_order(*keys: NDArray[Any]) -> Integers:
    """[nodes] The places of all nodes in the order of `batches`."""
    return np.lexsort(keys[::-1])
