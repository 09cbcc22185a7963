"""Batching schedules: by depth or by agenda (Neubig et al. 2017, section 3.2).

The agenda is that of the paper, but it schedules groups of operations that wait for each other. A group
contains operations that the same line of code has recorded, with an equal number of such operations before
each. So the n-th steps of all sequences are one batch and their outputs are another, whatever is ready first.
Such groups can wait for each other in a circle, as in trees whose nodes differ in their number of children. A
group then contains operations of equal depth instead. The shortest schedule is chosen by counting.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers, heights
from parser.batching.operations.batches import Batches
from parser.batching.operations.occurrences import occurrences
from parser.batching.operations.pending import Pending

WAITING = -1


def by_depth(pending: Pending) -> Batches:
    """Return batches of operations of equal depth and kind, as in TensorFlow Fold (Looks et al. 2017)."""
    return _by_depth(pending, heights(len(pending), *pending.edges))


def _by_depth(pending: Pending, depth: Integers) -> Batches:
    return Batches.by(depth * len(pending.kinds.all) + pending.kind)


def by_agenda(pending: Pending) -> Batches:
    """Repeatedly run all ready groups of the kind with the lowest mean depth.

    The mean is over all operations that have not run, ready or not. Ties are broken in favour of cheap
    operations. Returns the batches of `by_depth` if these are fewer.
    """
    found = occurrences(pending)
    depth = found.depth if _are_single(pending) else heights(len(pending), *pending.edges)
    orders = [_in_agenda_order(pending, _Groups.of(pending, found.before, depth))]
    if orders[0] is None:
        groups = _Groups.of(pending, depth, depth)  # no circle, because each waits only for lower ones
        # Neither mean is always better: what is left suits trees, and all operations suit programs.
        orders = [_in_agenda_order(pending, groups, of_all) for of_all in (False, True)]
    schedules = [Batches.by(order) for order in orders if order is not None]
    return min([*schedules, _by_depth(pending, depth)], key=lambda batches: len(batches.bounds))


def _are_single(pending: Pending) -> bool:
    """Whether all applications are of a single operation, so that paths through applications are exact."""
    return all(len(own.template.wiring.origin) == 1 for own in pending.applications)


class _Groups(NamedTuple):
    """Groups of operations of equal origin and part. Lists have an entry for each group."""

    of_operation: Integers
    """[operations] The group of each operation."""
    kinds: list[int]
    sizes: list[int]
    """The number of operations."""
    depths: list[float]
    """The sum of the operations' depths."""
    followers: list[list[int]]
    """The groups that use its values."""
    missing: list[int]
    """The number of groups whose values it uses."""

    @classmethod
    def of(cls, pending: Pending, part: Integers, depth: Integers) -> _Groups:
        """part, depth: [operations]."""
        parts = int(part.max()) + 1
        key = pending.origin * parts + part
        exists = np.zeros(int(key.max()) + 1, np.int64)
        exists[key] = 1
        group = (exists.cumsum() - 1)[key]
        kinds = np.array(pending.kinds.of_origin)[np.flatnonzero(exists) // parts]
        used, user = pending.edges
        edges = np.unique(group[used] * len(kinds) + group[user])
        followers: list[list[int]] = [[] for _ in kinds]
        for one, other in zip((edges // len(kinds)).tolist(), (edges % len(kinds)).tolist(), strict=True):
            followers[one].append(other)
        return cls(
            group,
            kinds.tolist(),
            np.bincount(group).tolist(),
            np.bincount(group, depth).tolist(),
            followers,
            np.bincount(edges % len(kinds), minlength=len(kinds)).tolist(),
        )


def _in_agenda_order(pending: Pending, groups: _Groups, mean_of_all: bool = False) -> Integers | None:
    """[operations] The batch number of each operation; None if groups wait for each other in a circle.

    mean_of_all: the mean depths are over all operations, including those that have run.
    """
    _, kinds, sizes, depths, followers, missing = groups
    is_product = [kind.operation.is_product for kind in pending.kinds.all]
    left, total_depth = (
        np.bincount(kinds, own, len(is_product)).tolist() for own in (sizes, depths)
    )  # of each kind
    missing = missing.copy()
    ready: dict[int, list[int]] = {}
    agenda: list[tuple[float, bool, int]] = []  # of kinds, whose means change only when they run

    def make_ready(number: int) -> None:
        kind = kinds[number]
        if kind in ready:
            ready[kind].append(number)
        else:
            ready[kind] = [number]
            heapq.heappush(agenda, (total_depth[kind] / left[kind], is_product[kind], kind))

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
        if not mean_of_all:
            left[kind] -= sum([sizes[number] for number in together])
            total_depth[kind] -= sum([depths[number] for number in together])
        for number in together:
            for follower in followers[number]:
                missing[follower] -= 1
                if not missing[follower]:
                    make_ready(follower)
    return None if WAITING in batch else batch[groups.of_operation]


SCHEDULES: Mapping[str, Callable[[Pending], Batches]] = {"depth": by_depth, "agenda": by_agenda}
