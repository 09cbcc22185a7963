"""The structure of a template as arrays, found once and used for all its applications."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers
from parser.batching.operations.operation import Operation


@dataclass(frozen=True)
class TemplateNode:
    """An operation of a template.

    A template's values are numbered: first its arguments, then the nodes' outputs.
    """

    operation: Operation
    arguments: tuple[int, ...]
    index: int | None
    """The position of the node's index among the template's indices."""
    first: int
    """The number of the node's first output."""


class Origin(NamedTuple):
    """An operation object, and the widths of its arguments.

    All applications of a template share the template's origins. Single operations of equal signature in a
    graph share one origin, too.
    """

    operation: Operation
    widths: tuple[int, ...]
    """The widths of the arguments."""

    def signature(self) -> Hashable:
        """A key that is equal for operations that can share a batch."""
        return self.operation.signature(), self.widths


class Wiring(NamedTuple):
    """Arrays have an entry for each operation, unless another shape is given."""

    origins: tuple[Origin, ...]
    """The different origins."""
    origin: Integers
    """The position of the operation's origin in `origins`."""
    first_output: Integers
    """The number of the first output, counted from the first value that the template computes."""
    index_place: Integers
    """The position of the operation's index among the template's indices; -1 for none."""
    arguments: Integers
    """[arguments of all operations] Values of the template, operation by operation."""
    occurrence: Integers
    """The greatest number of preceding operations of the same origin on a path to the operation."""
    depth: Integers
    """The length of the longest path to the operation."""
    longest: Integers
    """[origins + 1] The most occurrences of each origin on a path through the template; last, the length of
    the longest path."""


def wiring_of(nodes: Sequence[TemplateNode], widths: Sequence[int]) -> Wiring:
    """Find the structure of a template. Raises ValueError if there are no nodes.

    widths: the widths of the template's values.
    """
    if not nodes:
        raise ValueError("a template needs at least one operation")
    number: dict[Origin, int] = {}
    origin = [
        number.setdefault(
            Origin(node.operation, tuple(widths[value] for value in node.arguments)), len(number)
        )
        for node in nodes
    ]
    nothing = [0] * (len(number) + 1)
    after = [nothing] * len(widths)  # the occurrences on the paths to each value, the last operation included
    occurrence, depth = [], []
    for node, place in zip(nodes, origin, strict=True):
        own = list(map(max, zip(*[after[value] for value in node.arguments], strict=True))) or nothing.copy()
        occurrence.append(own[place])
        depth.append(own[-1])
        own[place] += 1
        own[-1] += 1
        for value in range(node.first, node.first + len(node.operation.outputs)):
            after[value] = own
    return Wiring(
        tuple(number),
        np.array(origin, np.int64),
        np.array([node.first for node in nodes], np.int64) - nodes[0].first,
        np.array([-1 if node.index is None else node.index for node in nodes], np.int64),
        np.array([value for node in nodes for value in node.arguments], np.int64),
        np.array(occurrence, np.int64),
        np.array(depth, np.int64),
        np.array(after, np.int64).max(0),
    )


def nodes_of(wiring: Wiring, arguments: int) -> tuple[TemplateNode, ...]:
    """Return the nodes of a template with the given number of arguments."""
    origins = [wiring.origins[place] for place in wiring.origin.tolist()]
    values = iter(wiring.arguments.tolist())
    return tuple(
        TemplateNode(
            origin.operation,
            tuple(islice(values, len(origin.widths))),
            None if index < 0 else index,
            arguments + first,
        )
        for origin, index, first in zip(
            origins, wiring.index_place.tolist(), wiring.first_output.tolist(), strict=True
        )
    )
