"""The sequential parts of a network: its strongly connected components (Hwang & Sung 2015)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

from parser.batching.recurrence.layer_graph import Connection, LayerGraph, as_digraph

MIN_ELEMENTS = 16 * 1024
"""With fewer elements of a layer in a frame, the calls for each frame cost more than the cache saves."""


class Component(NamedTuple):
    stages: tuple[tuple[str, ...], ...]
    """The layers in topological order. Layers of one stage are independent of each other within a frame."""
    recurrent: bool
    """Whether the component must run frame by frame."""
    members: frozenset[str]
    """Connections from these layers are computed within the loop over frames."""

    @property
    def layers(self) -> list[str]:
        return [layer for stage in self.stages for layer in stage]


def components(graph: LayerGraph) -> list[Component]:
    """Return the components of a network in topological order, without the inputs."""
    directed = as_digraph(graph.layers, graph.connections)
    groups = [
        frozenset(members)
        for members in nx.strongly_connected_components(directed)
        if not all(graph.layers[layer].is_input for layer in members)
    ]
    return [
        Component(
            _stages(graph, members),
            len(members) > 1 or any(directed.has_edge(layer, layer) for layer in members),
            members,
        )
        for members in _in_order(graph, _condensed(graph, groups))
    ]


def all_by_frame(graph: LayerGraph) -> list[Component]:
    """Return the whole network as a single recurrent component, so that everything runs frame by frame."""
    layers = [name for name, layer in graph.layers.items() if not layer.is_input]
    return [Component(_stages(graph, layers), True, frozenset(graph.layers))]


def with_elementwise_neighbours(graph: LayerGraph, parts: Sequence[Component]) -> list[Component]:
    """Merge each cycle with the layers around it that no full connection separates from it into one loop.

    In a loop, values that were just computed are still in a CPU's cache, and no product becomes smaller.
    """
    merged = _condensed(graph, [frozenset(part.layers) for part in parts])
    for part in parts:
        if part.recurrent:
            cycle = frozenset(part.layers)
            while found := _neighbour(graph, merged, cycle):
                merged, cycle = found
    recurrent = {layer for part in parts if part.recurrent for layer in part.layers}
    return [
        Component(_stages(graph, members), not recurrent.isdisjoint(members), members)
        for members in _in_order(graph, merged)
    ]


def first_frames(graph: LayerGraph, parts: Sequence[Component], back: int) -> dict[str, int]:
    """Return the first frame of each layer that is reached by the errors of the frames from 0 on.

    back: the maximum number of earlier frames; parts: see `components`.
    """
    found: dict[str, int] = {}
    for part in reversed(parts):
        for layer in part.layers:
            found[layer] = -back if part.recurrent else _first(graph, layer, found, back)
    for layer in graph.inputs:
        found[layer] = _first(graph, layer, found, back)
    return found


def first_values(graph: LayerGraph, first: Mapping[str, int]) -> dict[str, int]:
    """Return the first frame of each layer whose values the forward or the backward pass reads.

    first: see `first_frames`.
    """
    found = {}
    for name, layer in graph.layers.items():
        own = first[name] if layer.activation != "identity" else 0
        found[name] = min([own, *(_first_read(graph, each, first) for each in graph.out_of(name))])
    return found


def _first_read(graph: LayerGraph, connection: Connection, first: Mapping[str, int]) -> int:
    """Return the first frame of the source that is read, for values or for the errors of earlier frames."""
    into = graph.into(connection.target)
    factor = graph.layers[connection.target].kind == "multiplicative" and len(into) > 1
    if connection.weight != "identity" or factor:
        return first[connection.target] - connection.delay
    return -connection.delay


def _first(graph: LayerGraph, layer: str, found: Mapping[str, int], back: int) -> int:
    reached = [found[each.target] - each.delay for each in graph.out_of(layer)]
    return max(-back, min([*reached, *([0] if graph.layers[layer].output else [])]))


def _neighbour(
    graph: LayerGraph, merged: nx.DiGraph, cycle: frozenset[str]
) -> tuple[nx.DiGraph, frozenset[str]] | None:
    """Return the merged groups after one more has joined the cycle, and the cycle; None if no other can."""
    for group in (*merged.predecessors(cycle), *merged.successors(cycle)):
        between = [
            each.weight
            for each in graph.connections
            if (each.source in group and each.target in cycle)
            or (each.source in cycle and each.target in group)
        ]
        inside = any(each.source in group and each.target in group for each in graph.connections)
        if "full" in between or inside:
            continue
        joined = cycle | group
        kept = [each for each in merged if each not in (cycle, group)]
        candidate = _condensed(graph, [*kept, joined])
        if nx.is_directed_acyclic_graph(candidate):
            return candidate, joined
    return None


def _condensed(graph: LayerGraph, groups: Iterable[frozenset[str]]) -> nx.DiGraph:
    """Return the graph of groups of layers, without the inputs."""
    group_of = {layer: group for group in groups for layer in group}
    found = nx.DiGraph()
    found.add_nodes_from(group_of.values())
    for each in graph.connections:
        ends = (group_of.get(each.source), group_of.get(each.target))
        if None not in ends and ends[0] != ends[1]:
            found.add_edge(*ends)
    return found


def _in_order(graph: LayerGraph, groups: nx.DiGraph) -> list[frozenset[str]]:
    place = {name: number for number, name in enumerate(graph.layers)}
    order = nx.lexicographical_topological_sort(groups, key=lambda group: min(place[each] for each in group))
    return list(order)


def _stages(graph: LayerGraph, members: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    inside = [name for name in graph.layers if name in set(members)]
    at_once = as_digraph(inside, (each for each in graph.connections if not each.delay))
    height: dict[str, int] = {}
    for layer in nx.topological_sort(at_once):
        height[layer] = 1 + max((height[below] for below in at_once.predecessors(layer)), default=-1)
    highest = max(height.values())
    return tuple(tuple(layer for layer in inside if height[layer] == stage) for stage in range(highest + 1))


def with_cached_loops(graph: LayerGraph, parts: Sequence[Component], streams: int) -> list[Component]:
    """For a CPU, return the parts, with elementwise layers merged into cycles if this is faster."""
    cycles = [part for part in parts if part.recurrent]
    if cycles and all(is_better_in_loop(graph, part, streams) for part in cycles):
        return with_elementwise_neighbours(graph, parts)
    return list(parts)


def is_better_in_loop(graph: LayerGraph, part: Component, streams: int) -> bool:
    """Whether a CPU should do an elementwise operation frame by frame, although it could do all at once.

    It then reads values that are still in the cache.
    """
    smallest = min(graph.layers[layer].size for layer in part.layers)
    return part.recurrent and streams * smallest >= MIN_ELEMENTS
