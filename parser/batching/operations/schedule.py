"""In which order, and which together: by depth, or by agenda (Neubig et al. 2017, section 3.2).

What is scheduled are the nodes of patterns, each of which stands for as many operations as its pattern has
applications.
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
    """All ready operations of one signature at a time: that whose operations have the lowest mean depth.

    The mean is over all that are to run, ready or not. Of equals the cheap ones go first.

    nodes: all that there are; numbers: of those that are to run; counts: of each pattern's applications.
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

    waiting: dict[int, int] = {}
    followers: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        before = nodes[number].before
        for one in before:
            followers[one].append(number)
        if before:
            waiting[number] = len(before)
        else:
            make_ready(number)
    scheduled = []
    while agenda:
        *_, signature = heapq.heappop(agenda)
        batch = ready.pop(signature)
        scheduled.append([nodes[number] for number in batch])
        for number in batch:
            for follower in followers.get(number, ()):
                waiting[follower] -= 1
                if not waiting[follower]:
                    make_ready(follower)
    return scheduled


def _priorities(
    nodes: Sequence[PatternNode], counts: Mapping[int, int]
) -> dict[int, tuple[float, bool, int]]:
    """Of each signature, the lowest first."""
    depths: dict[int, int] = defaultdict(int)
    totals: dict[int, int] = defaultdict(int)
    dear: dict[int, bool] = {}
    for node in nodes:
        count = counts[node.pattern]
        depths[node.signature] += node.depth * count
        totals[node.signature] += count
        dear[node.signature] = node.is_product
    return {
        signature: (depths[signature] / total, dear[signature], signature)
        for signature, total in totals.items()
    }


SCHEDULES: Mapping[str, Callable[[Sequence[PatternNode], Sequence[int], Mapping[int, int]], Batches]] = {
    "depth": by_depth,
    "agenda": by_agenda,
}
