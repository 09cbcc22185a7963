"""Batching schedules: by depth or by agenda (Neubig et al. 2017, section 3.2).

The scheduled nodes are nodes of patterns. Each stands for one operation per application of its pattern.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from parser.batching.levels import batches
from parser.batching.operations.patterns import PatternNode

Batches = list[list[PatternNode]]


def by_depth(nodes: Sequence[PatternNode], numbers: Sequence[int], counts: Mapping[int, int]) -> Batches:
    """Batches of equal depth and signature, as TensorFlow Fold makes them (Looks et al. 2017)."""
    chosen = [nodes[number] for number in numbers]
    depth = np.array([node.depth for node in chosen])
    signature = np.array([node.signature for node in chosen])
    return [[chosen[place] for place in which.tolist()] for which in batches(depth, signature)]


def by_agenda(nodes: Sequence[PatternNode], numbers: Sequence[int], counts: Mapping[int, int]) -> Batches:
    """Repeatedly run all ready operations of the signature with the lowest mean depth.

    The mean is over all pending operations, ready or not. Ties are broken in favour of cheap operations.

    nodes: all nodes; numbers: the pending ones; counts: the number of applications of each pattern.
    """
    priority = _priorities([nodes[number] for number in numbers], counts)
    ready: dict[int, list[int]] = {}
    agenda: list[tuple[float, bool, int]] = []

    def make_ready(number: int) -> None:
        signature = nodes[number].signature
        if signature in ready:
            ready[signature].append(number)
        else:
            ready[signature] = [number]
            heapq.heappush(agenda, priority[signature])

    missing_arguments: dict[int, int] = {}
    followers: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        before = nodes[number].before
        for one in before:
            followers[one].append(number)
        if before:
            missing_arguments[number] = len(before)
        else:
            make_ready(number)
    scheduled = []
    while agenda:
        *_, signature = heapq.heappop(agenda)
        batch = ready.pop(signature)
        scheduled.append([nodes[number] for number in batch])
        for number in batch:
            for follower in followers.get(number, ()):
                missing_arguments[follower] -= 1
                if not missing_arguments[follower]:
                    make_ready(follower)
    return scheduled


def _priorities(
    nodes: Sequence[PatternNode], counts: Mapping[int, int]
) -> dict[int, tuple[float, bool, int]]:
    """The priority of each signature; the lowest runs first."""
    depths: dict[int, int] = defaultdict(int)
    totals: dict[int, int] = defaultdict(int)
    is_product: dict[int, bool] = {}
    for node in nodes:
        count = counts[node.pattern]
        depths[node.signature] += node.depth * count
        totals[node.signature] += count
        is_product[node.signature] = node.is_product
    return {
        signature: (depths[signature] / total, is_product[signature], signature)
        for signature, total in totals.items()
    }


SCHEDULES: Mapping[str, Callable[[Sequence[PatternNode], Sequence[int], Mapping[int, int]], Batches]] = {
    "depth": by_depth,
    "agenda": by_agenda,
}
