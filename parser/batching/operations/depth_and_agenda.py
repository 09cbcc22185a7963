"""Batching schedules: by depth or by agenda (Neubig et al. 2017, section 3.2).

The agenda is that of the paper, but it schedules groups of operations that wait for each other. A group
contains operations that the same line of code has recorded, with an equal number of such operations before
each. So the n-th steps of all sequences are one batch and their outputs are another, whatever is ready first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

import numpy as np

from parser.batching.levels import Integers, heights
from parser.batching.operations.batches import Batches
from parser.batching.operations.occurrences import occurrences
from parser.batching.operations.pending import Pending

WAITING = -1


def by_depth(pending: Pending) -> Batches:
    """Return batches of operations of equal depth and kind, as in TensorFlow Fold (Looks et al. 2017)."""
    depth = heights(len(pending), *pending.edges)
    return Batches.by(depth * len(pending.kinds.all) + pending.kind)


def by_agenda(pending: Pending) -> Batches:
    """Repeatedly run all ready groups of the kind with the lowest mean depth.

    The mean is over all pending operations, ready or not. Ties are broken in favour of cheap operations.
    """
    found = occurrences(pending)
    place = _in_agenda_order(pending, found.before, found.depth)
    if place is None:
        place = _in_agenda_order(pending, found.depth, found.depth)
    assert place is not None, "an operation is deeper than all that it uses"
    return Batches.by(place)


def _in_agenda_order(pending: Pending, part: Integers, depth: Integers) -> Integers | None:
    """[operations] The batch number of each operation; None if groups wait for each other in a circle.

    part: [operations]; operations of equal origin and part are a group. depth: [operations].
    """
    group, origins = _groups(pending.origin, part)
    kinds = np.array(pending.kinds.of_origin)[origins].tolist()
    followers, missing = _waiting(group, len(kinds), pending)
    priority = _priorities(pending, depth)
    ready: dict[int, list[int]] = {}
    agenda: list[tuple[float, bool, int]] = []

    def make_ready(number: int) -> None:
        kind = kinds[number]
        if kind in ready:
            ready[kind].append(number)
        else:
            ready[kind] = [number]
            heapq.heappush(agenda, priority[kind])

    for number, count in enumerate(missing):
        if not count:
            make_ready(number)
    batch = np.full(len(kinds), WAITING)
    batches = 0
    while agenda:
        *_, kind = heapq.heappop(agenda)
        together = ready.pop(kind)
        batch[together] = batches
        batches += 1
        for number in together:
            for follower in followers[number]:
                missing[follower] -= 1
                if not missing[follower]:
                    make_ready(follower)
    return None if WAITING in batch else batch[group]


def _groups(origin: Integers, part: Integers) -> tuple[Integers, Integers]:
    """Return the group of each operation [operations], and the origin of each group [groups]."""
    parts = int(part.max()) + 1
    key = origin * parts + part
    exists = np.zeros(int(key.max()) + 1, np.int64)
    exists[key] = 1
    return (exists.cumsum() - 1)[key], np.flatnonzero(exists) // parts


def _waiting(group: Integers, groups: int, pending: Pending) -> tuple[list[list[int]], list[int]]:
    """For each group, return the groups that use its values, and the number of those whose values it uses."""
    used, user = pending.edges
    edges = np.unique(group[used] * groups + group[user])
    followers: list[list[int]] = [[] for _ in range(groups)]
    for one, other in zip((edges // groups).tolist(), (edges % groups).tolist(), strict=True):
        followers[one].append(other)
    return followers, np.bincount(edges % groups, minlength=groups).tolist()


def _priorities(pending: Pending, depth: Integers) -> list[tuple[float, bool, int]]:
    """Return the priority of each kind; the lowest runs first."""
    totals = np.bincount(pending.kind, minlength=len(pending.kinds.all))
    means = np.bincount(pending.kind, depth, len(totals)) / totals.clip(min=1)
    return [
        (mean, kind.operation.is_product, number)
        for number, (mean, kind) in enumerate(zip(means.tolist(), pending.kinds.all, strict=True))
    ]


SCHEDULES: Mapping[str, Callable[[Pending], Batches]] = {"depth": by_depth, "agenda": by_agenda}
