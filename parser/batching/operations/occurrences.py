"""How often operations of the same origin are on a path to an operation.

Operations with the same number of such operations before them are independent, and there can be no fewer
batches than the greatest number on a path. Paths are taken to run through whole applications: a path that
enters an application is as long as the longest path within it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers, heights, in_order
from parser.batching.operations.pending import COMPUTED, Pending


class Occurrences(NamedTuple):
    """All arrays are [operations]."""

    before: Integers
    """The greatest number of preceding operations of the same origin on a path to the operation."""
    depth: Integers
    """The greatest number of preceding operations on a path to the operation."""


def occurrences(pending: Pending) -> Occurrences:
    wirings = [own.template.wiring for own in pending.applications]
    occurrence = pending.of_wirings([wiring.occurrence for wiring in wirings])
    depth = pending.of_wirings([wiring.depth for wiring in wirings])
    before = _before_applications(pending)
    if before is None:
        return Occurrences(occurrence, depth)
    application = pending.application
    return Occurrences(occurrence + before[application, pending.origin], depth + before[application, -1])


def _before_applications(pending: Pending) -> Integers | None:
    """[applications, origins + 1] The most operations of each origin, and of all, on a path to each.

    None if no application uses the results of another.
    """
    used, user = _between_applications(pending)
    if not len(used):
        return None
    longest = _through_applications(pending)
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


def _between_applications(pending: Pending) -> tuple[Integers, Integers]:
    """Return applications [edges], and for each another application that uses its results [edges]."""
    used, user, start = [], [], 0
    for own in pending.applications:
        count, arguments = own.arguments.shape
        giver = pending.givers_of(own.arguments.ravel())
        within = giver != COMPUTED
        used.append(pending.application[giver[within]])
        user.append(np.arange(start, start + count).repeat(arguments)[within])
        start += count
    return np.concatenate(used), np.concatenate(user)


def _through_applications(pending: Pending) -> Integers:
    """[applications, origins + 1] The most operations of each origin, and of all, on a path through each."""
    longest = np.zeros((len(pending.applications), len(pending.kinds.of_origin) + 1), np.int64)
    for row, own in zip(longest, pending.applications, strict=True):
        row[pending.kinds.origins_of(own.template)] = own.template.wiring.longest[:-1]
        row[-1] = own.template.wiring.longest[-1]
    return longest[pending.template]
