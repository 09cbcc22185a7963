"""Schedules: which operations run together, and in which order; by depth or by agenda (Neubig et al. 2017,
section 3.2).

The agenda is that of the paper, but it schedules groups of operations that wait for each other. A group
contains operations that the same line of code has recorded, with an equal number of such operations before
each. So the n-th steps of all sequences are one batch and their outputs are another, whatever is ready first.
Such groups can wait for each other in a circle, as in trees whose nodes differ in their number of children. A
group then contains operations of equal depth instead. The shortest schedule is chosen by counting.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers, heights, in_order
from parser.batching.operations.pending import COMPUTED, Applications, Kinds, Pending
from parser.batching.operations.template import Origin

WAITING = -1


class KindBatches(NamedTuple):
    """The batches of one kind of operation. Arrays have an entry for each operation, batch by batch."""

    kind: Origin
    """Any origin of this kind."""
    numbers: Sequence[int]
    """The positions of the batches in the schedule."""
    bounds: Integers
    """[batches + 1] The position of the first operation of each batch, and the end of the last batch."""
    first: Integers
    """[operations] The number of the value that is the first output."""
    arguments: Integers
    """[operations, arguments] The numbers of the argument values."""
    indices: Integers
    """[operations] The index of each operation; any number if the kind takes none."""

    @property
    def sizes(self) -> Integers:
        """[batches] The number of operations of each batch."""
        return self.bounds[1:] - self.bounds[:-1]


class Batches(NamedTuple):
    """Batches of operations. The operations of a batch are of one kind and independent of each other."""

    order: Integers
    """[operations] The operations, batch by batch."""
    bounds: Integers
    """[batches + 1] The position in `order` at which each batch starts, and the end of the last one."""

    @classmethod
    def by(cls, key: Integers) -> Batches:
        """Return a batch for each different value of `key` [operations], the lowest first."""
        order = key.argsort(kind="stable")
        ordered = key[order]
        changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        return cls(order, np.concatenate([[0], changes, [len(key)]]))

    @classmethod
    def single(cls, pending: Pending) -> Batches:
        """Return a batch for each operation, in the order of recording."""
        return cls(pending.first.argsort(), np.arange(len(pending) + 1))

    def by_kind(self, pending: Pending) -> list[KindBatches]:
        kind = pending.kind[self.order]
        order = self.order[kind.argsort(kind="stable")]
        of_batch, sizes = kind[self.bounds[:-1]], self.bounds[1:] - self.bounds[:-1]
        batches_of_kinds, start = [], 0
        for number in np.unique(of_batch).tolist():
            batches = np.flatnonzero(of_batch == number)
            bounds = np.concatenate([[0], sizes[batches].cumsum()])
            operations = order[start : start + bounds[-1]]
            start += len(operations)
            its_kind = pending.kinds.all[number]
            positions = pending.argument_starts[operations][:, None] + np.arange(len(its_kind.widths))
            batches_of_kinds.append(
                KindBatches(
                    its_kind,
                    batches.tolist(),
                    bounds,
                    pending.first[operations],
                    pending.arguments[positions],
                    pending.indices[operations],
                )
            )
        return batches_of_kinds


def at_once(applications: Sequence[Applications], kinds: Kinds, start: int) -> list[KindBatches] | None:
    """Return a batch for each operation of each template.

    Returns None unless all arguments are computed and no two kinds are equal. start: the number of the first
    value that can still need computing.
    """
    wirings = [each.template.wiring for each in applications]
    if any(len(wiring.origins) < len(wiring.origin) for wiring in wirings):
        return None
    origins = [origin for each in applications for origin in kinds.origins_of(each.template).tolist()]
    if len({kinds.of_origin[origin] for origin in origins}) < len(origins) or any(
        (each.arguments >= start).any() for each in applications
    ):
        return None
    batches: list[KindBatches] = []
    for each, wiring in zip(applications, wirings, strict=True):
        bounds = np.array([0, len(each.first)])
        for node, kind, first in zip(
            each.template.nodes, wiring.origins, wiring.first_output.tolist(), strict=True
        ):
            index = each.first if node.index is None else each.indices[:, node.index]
            arguments = each.values_of(node.arguments)
            batches.append(KindBatches(kind, [len(batches)], bounds, each.first + first, arguments, index))
    return batches


def by_depth(pending: Pending) -> Batches:
    """Return batches of operations of equal depth and kind, as in TensorFlow Fold (Looks et al. 2017)."""
    return _of_equal_depth(pending, heights(len(pending), *pending.edges))


def _of_equal_depth(pending: Pending, depth: Integers) -> Batches:
    """depth: [operations]."""
    return Batches.by(depth * len(pending.kinds.all) + pending.kind)


def by_agenda(pending: Pending) -> Batches:
    """Repeatedly run all ready groups of the kind with the lowest mean depth.

    The mean is over all operations that have not run, ready or not. Ties are broken in favour of cheap
    operations. Returns the batches of `by_depth` if these are fewer.
    """
    counts = _occurrences(pending)
    # Paths through applications are exact only if all applications are of a single operation.
    are_single = all(len(each.template.wiring.origin) == 1 for each in pending.applications)
    depth = counts.depth if are_single else heights(len(pending), *pending.edges)
    orders = [_in_agenda_order(pending, _Groups.of(pending, counts.before, depth))]
    if orders[0] is None:
        groups = _Groups.of(pending, depth, depth)  # no circle, because each waits only for lower ones
        # Neither mean is always better: what is left suits trees, and all operations suit programs.
        orders = [_in_agenda_order(pending, groups, of_all) for of_all in (False, True)]
    schedules = [Batches.by(order) for order in orders if order is not None]
    return min([*schedules, _of_equal_depth(pending, depth)], key=lambda batches: len(batches.bounds))


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
        np.bincount(kinds, of_groups, len(is_product)).tolist() for of_groups in (sizes, depths)
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


class _Occurrences(NamedTuple):
    """How often operations of the same origin are on a path to an operation. All arrays are [operations].

    Operations with the same number of such operations before them are independent, and there can be no fewer
    batches than the greatest number on a path. Paths are taken to run through whole applications: a path that
    enters an application is as long as the longest path within it.
    """

    before: Integers
    """The greatest number of preceding operations of the same origin on a path to the operation."""
    depth: Integers
    """The greatest number of preceding operations on a path to the operation."""


def _occurrences(pending: Pending) -> _Occurrences:
    wirings = [each.template.wiring for each in pending.applications]
    occurrence = pending.of_wirings([wiring.occurrence for wiring in wirings])
    depth = pending.of_wirings([wiring.depth for wiring in wirings])
    used, user, start = [], [], 0  # applications, and for each another one that uses its results
    for each in pending.applications:
        count, arguments = each.arguments.shape
        giver = pending.givers_of(each.arguments.ravel())
        within = giver != COMPUTED
        used.append(pending.application[giver[within]])
        user.append(np.arange(start, start + count).repeat(arguments)[within])
        start += count
    if not any(map(len, used)):
        return _Occurrences(occurrence, depth)
    # [templates, origins + 1] The most operations of each origin, and of all, on a path through each.
    longest = np.zeros((len(wirings), len(pending.kinds.of_origin) + 1), np.int64)
    for row, each in zip(longest, pending.applications, strict=True):
        row[pending.kinds.origins_of(each.template)] = each.template.wiring.longest[:-1]
        row[-1] = each.template.wiring.longest[-1]
    through = longest[pending.template]
    before = _before_applications(through, np.concatenate(used), np.concatenate(user))
    application = pending.application
    return _Occurrences(occurrence + before[application, pending.origin], depth + before[application, -1])


def _before_applications(longest: Integers, used: Integers, user: Integers) -> Integers:
    """[applications, origins + 1] The most operations of each origin, and of all, on a path to each.

    longest: [applications, origins + 1], the same on a path through each; used, user: [edges], at least one.

    All applications of a level get their maxima by one call. For this, the edges are sorted by the level of
    their users. An example of four applications, in which 0 uses 2 and 1, and 2 uses 1 and 3, of a template
    of one operation:

        used   2 1 1 3      level of the applications   2 0 1 0
        user   0 0 2 2

        used   1 3 2 1      sorted: the edges of application 2, on level 1, then those of 0, on level 2
        user   2 2 0 0
        starts 0   2        the first edge of each user; user[starts] is 2 0
        bounds 0 1 2        starts[0:1] are of users on level 1, starts[1:2] of those on level 2

    Nothing is before 1 and 3. Before 2 is the greater of what is on the paths through 1 and 3, one operation.
    Before 0 is the greater of what is on the paths up to and through 2 and 1: two operations.
    """
    level = heights(len(longest), used, user)
    order = in_order(level[user], user)
    used, user = used[order], user[order]
    starts = np.flatnonzero(np.diff(user, prepend=-1))  # of the edges of one user
    bounds = np.searchsorted(level[user[starts]], np.arange(1, level.max() + 2))
    edges = np.append(starts, len(used))
    before, after = np.zeros_like(longest), longest.copy()
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        first = edges[start]
        users = user[starts[start:stop]]
        before[users] = np.maximum.reduceat(after[used[first : edges[stop]]], starts[start:stop] - first)
        after[users] += before[users]
    return before
