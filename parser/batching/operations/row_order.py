"""The order of operations within batches, from which the order of rows in memory follows.

Any order is correct. In this order, most batches read contiguous rows: step n + 1 of a recurrence reads the
first rows that step n has written, because the sequences that end at step n are the last rows of step n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers
from parser.batching.operations.batches import Batches
from parser.batching.operations.pending import COMPUTED, Pending
from parser.batching.operations.wiring import Origin

UNREAD = np.iinfo(np.int64).max
"""Replaces the reader of a value that only the caller reads."""


def in_order_of_readers(batches: Batches, pending: Pending) -> Batches:
    """Return the same batches, each in the order in which later batches first read its values.

    In a batch that is read, operations of one origin stay together. A batch whose values only the caller
    reads is in the order of the values that the batch itself reads first.
    """
    order, bounds, reader = batches.order.copy(), batches.bounds.tolist(), np.full(len(pending) + 1, UNREAD)
    starts, givers, origin = pending.argument_starts, pending.givers, pending.origin
    mixed, unread = _mixed(batches, origin), []
    reads = [_Reads.of(kind) for kind in pending.kinds.all]
    most = max(len(own.before) for own in reads)
    for number in reversed(range(len(mixed))):
        start, stop = bounds[number : number + 2]
        own = order[start:stop]
        its_reader = reader[own]
        if its_reader[0] == UNREAD and its_reader.min() == UNREAD:
            unread.append((start, stop))
        by_reader = its_reader.argsort(kind="stable")
        own = own[_together(by_reader, origin[own]) if mixed[number] else by_reader]
        order[start:stop] = own
        its_reads = reads[pending.kind[own[0]]]
        read = givers[starts[own][:, None] + np.arange(len(its_reads.before))]  # [batch, arguments]
        reader[read] = start * most + its_reads.of_batch(len(own))  # the last place is for `COMPUTED`
    place = np.empty_like(reader)
    place[order] = np.arange(len(order))
    place[COMPUTED] = COMPUTED
    for start, stop in unread:
        own = order[start:stop]
        if len(reads[pending.kind[own[0]]].before):
            order[start:stop] = own[place[givers[starts[own]]].argsort(kind="stable")]
    return Batches(order, batches.bounds)


def _mixed(batches: Batches, origin: Integers) -> list[bool]:
    """Whether each batch has several origins. origin: [operations]"""
    ordered, starts = origin[batches.order], batches.bounds[:-1]
    return (np.minimum.reduceat(ordered, starts) != np.maximum.reduceat(ordered, starts)).tolist()


def _together(order: Integers, origin: Integers) -> Integers:
    """Return the order with equal origins together, each at the place of its first operation.

    origin: [batch], in the original order.
    """
    ordered, place = origin[order], np.arange(len(order))
    first = np.empty(int(origin.max()) + 1, np.int64)
    first[ordered[::-1]] = place[::-1]
    return order[(first[ordered] * len(order) + place).argsort()]


class _Reads(NamedTuple):
    """The order in which batches of one kind read: pack by pack, and within a pack operation by operation."""

    before: Integers
    """[arguments] The number of arguments in the packs before the argument's pack."""
    size: Integers
    """[arguments] The number of arguments in the argument's pack."""
    place: Integers
    """[arguments] The place of the argument within its pack."""

    @classmethod
    def of(cls, kind: Origin) -> _Reads:
        count, start = len(kind.widths), 0
        before, size, place = np.zeros((3, count), np.int64)
        for pack in map(list, kind.operation.packs(count)):
            before[pack], size[pack], place[pack] = start, len(pack), np.arange(len(pack))
            start += len(pack)
        return cls(before, size, place)

    def of_batch(self, rows: int) -> Integers:
        """[rows, arguments] The place of each read in this order."""
        return np.arange(rows)[:, None] * self.size + self.place + rows * self.before
