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
    """The position of its index among the template's indices."""
    first: int
    """The number of its first output."""


class Origin(NamedTuple):
    """The operation object, and the widths of its arguments.

    All applications of a template share its origins, and so do single operations of equal signature in a
    graph.
    """

    operation: Operation
    widths: tuple[int, ...]
    """Of its arguments."""

    def signature(self) -> Hashable:
        """Equal for operations that can share a batch."""
        return self.operation.signature(), self.widths


class Wiring(NamedTuple):
    """Arrays have an entry for each operation, unless another shape is given."""

    origins: tuple[Origin, ...]
    """The different ones."""
    origin: Integers
    """Its position among them."""
    first_output: Integers
    """Its number, counted from the first value that the template computes."""
    index_place: Integers
    """The position of its index among the template's indices; -1 for none."""
    arguments: Integers
    """[arguments of all operations] Values of the template, operation by operation."""
    occurrence: Integers
    """How often its origin occurs before it, on the path to it on which that is most often."""
    depth: Integers
    """The length of the longest path to it."""
    longest: Integers
    """[origins + 1] The most occurrences of each on a path through the template; and its longest path."""


def wiring_of(nodes: Sequence[TemplateNode], widths: Sequence[int]) -> Wiring:
    """widths: of the template's values. Raises ValueError if there are no nodes."""
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
    """The nodes of a template with that number of arguments."""
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
