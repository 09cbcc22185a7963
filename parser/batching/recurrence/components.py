"""The sequential parts of a network: its strongly connected components (Hwang & Sung 2015)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

from parser.batching.recurrence.graph import LayerGraph, as_digraph


class Component(NamedTuple):
    stages: tuple[tuple[str, ...], ...]
    """Its layers in topological order. Layers of a stage are independent of each other within a frame."""
    recurrent: bool
    """Whether it must run frame by frame."""
    members: frozenset[str]
    """Connections from these layers are computed within the loop over frames."""

    @property
    def layers(self) -> list[str]:
        return [layer for stage in self.stages for layer in stage]


def components(graph: LayerGraph) -> list[Component]:
    """The components in topological order, without the inputs."""
    directed = as_digraph(graph.layers, graph.connections)
    place = {name: number for number, name in enumerate(graph.layers)}
    condensed = nx.condensation(directed)
    order = nx.lexicographical_topological_sort(
        condensed, key=lambda node: min(place[layer] for layer in condensed.nodes[node]["members"])
    )
    found = []
    for node in order:
        members = condensed.nodes[node]["members"]
        if not all(graph.layers[layer].is_input for layer in members):
            recurrent = len(members) > 1 or any(directed.has_edge(layer, layer) for layer in members)
            found.append(Component(_stages(graph, members), recurrent, frozenset(members)))
    return found


def all_by_frame(graph: LayerGraph) -> list[Component]:
    """The whole network as a single recurrent component, so that everything runs frame by frame."""
    layers = [name for name, layer in graph.layers.items() if not layer.is_input]
    return [Component(_stages(graph, layers), True, frozenset(graph.layers))]


def first_frames(graph: LayerGraph, parts: Sequence[Component], back: int) -> dict[str, int]:
    """The first frame of each layer that is reached by the errors of the frames from 0 on.

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
    """The first frame of each layer whose values the forward or the backward pass reads.

    first: see `first_frames`.
    """
    return {
        layer: min([first[layer], *(first[each.target] - each.delay for each in graph.out_of(layer))])
        for layer in graph.layers
    }


def _first(graph: LayerGraph, layer: str, found: Mapping[str, int], back: int) -> int:
    reached = [found[each.target] - each.delay for each in graph.out_of(layer)]
    return max(-back, min([*reached, *([0] if graph.layers[layer].output else [])]))


def _stages(graph: LayerGraph, members: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    inside = [name for name in graph.layers if name in set(members)]
    at_once = as_digraph(inside, (each for each in graph.connections if not each.delay))
    height: dict[str, int] = {}
    for layer in nx.topological_sort(at_once):
        height[layer] = 1 + max((height[below] for below in at_once.predecessors(layer)), default=-1)
    highest = max(height.values())
    return tuple(tuple(layer for layer in inside if height[layer] == stage) for stage in range(highest + 1))
