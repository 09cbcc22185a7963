"""In which order, and which together: by depth, or by agenda (Neubig et al. 2017, section 3.2).

What is scheduled are nodes: one operation of one pattern, standing for as many operations as the pattern has
applications.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from parser.batching.operations.patterns import Pattern, PatternValue

Node = tuple[int, int]
"""A pattern, and which of its template's nodes."""


@dataclass
class _Nodes:
    """What is to be scheduled. Lists have an element for each node."""

    name: list[Node]
    signature: list[Hashable]
    is_product: list[bool]
    count: list[int]
    """How many operations it stands for."""
    depth: list[int]
    """The longest way from something that is computed already."""
    waiting: list[int]
    """How many of its arguments' nodes are not computed."""
    followers: list[list[int]]


def _nodes_of(patterns: Sequence[Pattern], counts: Mapping[int, int]) -> _Nodes:
    """Patterns in the order in which they first occurred, which is one in which they could run."""
    nodes = _Nodes([], [], [], [], [], [], [])
    producer: dict[PatternValue, int] = {}
    for pattern in patterns:
        template, base = pattern.template, len(nodes.name)
        inside: list[int | None] = [producer.get(value) for value in pattern.arguments]
        for place, node in enumerate(template.nodes):
            number = base + place
            before = {source for value in node.arguments if (source := inside[value]) is not None}
            depth = 0
            for source in before:
                nodes.followers[source].append(number)
                depth = max(depth, nodes.depth[source] + 1)
            nodes.name.append((pattern.number, place))
            nodes.signature.append(template.signatures[place])
            nodes.is_product.append(node.operation.is_product)
            nodes.count.append(counts[pattern.number])
            nodes.depth.append(depth)
            nodes.waiting.append(len(before))
            nodes.followers.append([])
            inside += [number] * len(node.operation.outputs)
        for value, result in zip(pattern.results, template.results, strict=True):
            if (source := inside[result]) is not None:
                producer[value] = source
    return nodes


def by_depth(patterns: Sequence[Pattern], counts: Mapping[int, int]) -> list[list[Node]]:
    """Batches of equal depth and signature, as TensorFlow Fold makes them (Looks et al. 2017)."""
    nodes = _nodes_of(patterns, counts)
    batches: dict[tuple[int, Hashable], list[Node]] = defaultdict(list)
    for name, depth, signature in zip(nodes.name, nodes.depth, nodes.signature, strict=True):
        batches[depth, signature].append(name)
    return [batch for _, batch in sorted(batches.items(), key=lambda item: item[0][0])]


def by_agenda(patterns: Sequence[Pattern], counts: Mapping[int, int]) -> list[list[Node]]:
    """All ready operations of one signature at a time: that whose operations have the lowest mean depth.

    The mean is over all that are to run, ready or not. Of equals the cheap ones go first.
    """
    nodes = _nodes_of(patterns, counts)
    order = _priorities(nodes)
    ready: dict[Hashable, list[int]] = defaultdict(list)
    agenda: list[tuple[float, bool, int, Hashable]] = []

    def make_ready(number: int) -> None:
        signature = nodes.signature[number]
        if not ready[signature]:
            heapq.heappush(agenda, order[signature])
        ready[signature].append(number)

    for number, waiting in enumerate(nodes.waiting):
        if not waiting:
            make_ready(number)
    batches = []
    while agenda:
        *_, signature = heapq.heappop(agenda)
        batch = ready.pop(signature)
        batches.append([nodes.name[number] for number in batch])
        for number in batch:
            for follower in nodes.followers[number]:
                nodes.waiting[follower] -= 1
                if not nodes.waiting[follower]:
                    make_ready(follower)
    return batches


def _priorities(nodes: _Nodes) -> dict[Hashable, tuple[float, bool, int, Hashable]]:
    """The lowest first; the third part only keeps signatures from being compared."""
    depths: dict[Hashable, int] = defaultdict(int)
    totals: dict[Hashable, int] = defaultdict(int)
    dear: dict[Hashable, bool] = {}
    for signature, depth, count, is_product in zip(
        nodes.signature, nodes.depth, nodes.count, nodes.is_product, strict=True
    ):
        depths[signature] += depth * count
        totals[signature] += count
        dear[signature] = is_product
    return {
        signature: (depths[signature] / totals[signature], dear[signature], place, signature)
        for place, signature in enumerate(totals)
    }


SCHEDULES: Mapping[str, Callable[[Sequence[Pattern], Mapping[int, int]], list[list[Node]]]] = {
    "depth": by_depth,
    "agenda": by_agenda,
}
