"""Schedules: which operations run together, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers
from parser.batching.operations.pending import Applications, Kinds, Pending
from parser.batching.operations.wiring import Origin


class KindBatches(NamedTuple):
    """The batches of one kind of operation. Arrays have an entry for each operation, batch by batch."""

    kind: Origin
    """Any origin of this kind."""
    numbers: Sequence[int]
    """The places of the batches in the schedule."""
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
        found, start = [], 0
        for number in np.unique(of_batch).tolist():
            batches = np.flatnonzero(of_batch == number)
            bounds = np.concatenate([[0], sizes[batches].cumsum()])
            own = order[start : start + bounds[-1]]
            start += len(own)
            its_kind = pending.kinds.all[number]
            places = pending.argument_starts[own][:, None] + np.arange(len(its_kind.widths))
            found.append(
                KindBatches(
                    its_kind,
                    batches.tolist(),
                    bounds,
                    pending.first[own],
                    pending.arguments[places],
                    pending.indices[own],
                )
            )
        return found


def at_once(applications: Sequence[Applications], kinds: Kinds, start: int) -> list[KindBatches] | None:
    """Return a batch for each operation of each template.

    Returns None unless all arguments are computed and no two kinds are equal. start: the number of the first
    value that can still need computing.
    """
    wirings = [own.template.wiring for own in applications]
    if any(len(wiring.origins) < len(wiring.origin) for wiring in wirings):
        return None
    origins = [origin for own in applications for origin in kinds.origins_of(own.template).tolist()]
    if len({kinds.of_origin[origin] for origin in origins}) < len(origins) or any(
        (own.arguments >= start).any() for own in applications
    ):
        return None
    found: list[KindBatches] = []
    for own, wiring in zip(applications, wirings, strict=True):
        bounds = np.array([0, len(own.first)])
        for node, kind, first in zip(
            own.template.nodes, wiring.origins, wiring.first_output.tolist(), strict=True
        ):
            index = own.first if node.index is None else own.indices[:, node.index]
            arguments = own.values_of(node.arguments)
            found.append(KindBatches(kind, [len(found)], bounds, own.first + first, arguments, index))
    return found
