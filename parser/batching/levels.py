"""Level schedules of structures that are known in advance (Suarez & Zhu 2017, section 3).

A structure is a directed acyclic graph of nodes. Each node is a call of some kind. A labelling assigns a
level to every node such that nodes of one level are independent. Nodes of equal level and kind run as one
call, so with p kinds there are at most p calls per level. There are several labellings:

- the height, the greatest distance from a leaf, lowest first: everything runs as early as possible;
- the greatest distance from a root, deepest first: everything runs as late as possible (the paper's improved
  sort);
- the position in the structure's own order, column by column (the paper's standard sort).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def heights(nodes: int, used: Integers, user: Integers) -> Integers:
    """[nodes] The greatest distance of each node from a leaf. A leaf is a node that uses no other node.

    used, user: [edges]; node `user[i]` uses node `used[i]`. Raises ValueError for a cycle, and for edges
    of nodes that do not exist.

    >>> heights(5, used=np.array([0, 1, 3]), user=np.array([1, 2, 4])).tolist()
    [0, 1, 2, 0, 1]
    """
    used, user = np.asarray(used, np.int64), np.asarray(user, np.int64)
    if used.shape != user.shape:
        raise ValueError(f"{len(used)} used nodes and {len(user)} users: an edge has one of each")
    for ends in (used, user):
        if len(ends) and not 0 <= ends.min() <= ends.max() < nodes:
            edge = int(np.flatnonzero((ends < 0) | (ends >= nodes))[0])
            raise ValueError(f"edge {edge} is of node {ends[edge]}, but there are {nodes} nodes, from 0 on")
    order = used.argsort(kind="stable")
    users, counts = user[order], np.bincount(used, minlength=nodes)
    ends = counts.cumsum()
    missing = np.bincount(user, minlength=nodes)
    level, reached = np.zeros(nodes, np.int64), np.flatnonzero(missing == 0)
    # The numbers of reached nodes, to leave out repetitions faster than by sorting.
    number = np.empty(nodes, np.int64)
    while len(reached):
        its_counts = counts[reached]
        edges = (ends[reached] - its_counts.cumsum()).repeat(its_counts)
        edges += np.arange(len(edges))
        using = users[edges]
        np.subtract.at(missing, using, 1)
        level[using] = level[reached[0]] + 1
        using = using[missing[using] == 0]
        numbers = np.arange(len(using))
        number[using] = numbers
        reached = using[number[using] == numbers]
    if missing.any():
        raise ValueError("a cycle: a node must not depend on itself, directly or through others")
    return level


def depths(nodes: int, used: Integers, user: Integers) -> Integers:
    """[nodes] The greatest distance of each node from a root, which no other node uses; see `heights`.

    >>> depths(5, used=np.array([0, 1, 3]), user=np.array([1, 2, 4])).tolist()
    [2, 1, 0, 1, 0]
    """
    return heights(nodes, user, used)


def batches(*keys: NDArray[Any]) -> list[Integers]:
    """Return batches of nodes that are equal in all keys, as indices of nodes. keys: [nodes] each.

    Batches are sorted by the keys, the first key first. Within a batch, nodes are sorted by index.

    >>> level, kind = np.array([0, 1, 2, 1, 2]), np.array([0, 1, 2, 1, 2])
    >>> [batch.tolist() for batch in batches(level, kind)]
    [[0], [1, 3], [2, 4]]
    """
    order = in_order(*keys)
    changes = np.zeros(max(0, len(order) - 1), bool)
    for key in keys:
        changes |= np.diff(key[order]) != 0
    return np.split(order, np.flatnonzero(changes) + 1) if len(order) else []


def in_order(*keys: NDArray[Any]) -> Integers:
    """[nodes] The indices of all nodes in the order of `batches`."""
    return np.lexsort(keys[::-1])
