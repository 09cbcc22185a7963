"""The definition of a recurrent network, layers and connections with delays, and its sequential parts, the
strongly connected components (Hwang & Sung 2015)."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, model_validator

Activation = Literal["identity", "sigmoid", "tanh", "relu", "complement"]

INPUTS = ("input", "symbols")


def _leave_out_example(schema: dict[str, Any]) -> None:
    """The example in the docstring of a class is none of the description of its settings."""
    schema["description"] = schema.get("description", "").partition(">>>")[0].strip()


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
        json_schema_extra=_leave_out_example,
    )


class Layer(_Part):
    """A layer of units.

    >>> Layer(size=64, activation="tanh").is_input
    False
    """

    size: int = Field(gt=0)
    """Number of units, or of different symbols."""
    kind: Literal["input", "symbols", "additive", "multiplicative"] = "additive"
    """input: external vectors. symbols: external integers, equivalent to one-hot vectors.
    additive: the sum of the incoming connections. multiplicative: their product."""
    activation: Activation = "identity"
    """Function applied to the sum or product; `complement` is 1 - x."""
    bias: bool | None = None
    """Whether an additive layer has a bias. Default: true if it has an incoming full connection."""
    output: bool = False
    """Whether its values are returned and its errors are given."""

    @property
    def is_input(self) -> bool:
        return self.kind in INPUTS


class Connection(_Part):
    """A connection from each unit of a layer to each unit of another, or to its counterpart there.

    >>> print(Connection(source="hidden", target="hidden", weight="diagonal", delay=1))
    hidden -> hidden (delay 1)
    """

    source: str
    target: str
    weight: Literal["full", "diagonal", "identity"] = "full"
    """Kind of weight. full: a weight matrix. diagonal: an elementwise weight. identity: no weight."""
    delay: int = Field(0, ge=0)
    """Delay in frames. Before the first frame, all values are 0."""

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}" + (f" (delay {self.delay})" if self.delay else "")


class LayerGraph(_Part):
    """A network of layers and connections. If the network cannot be run, raises pydantic's ValidationError,
    which names the layers.

    >>> graph = LayerGraph(
    ...     layers={"words": Layer(size=9, kind="symbols"), "scores": Layer(size=9, output=True)},
    ...     connections=[Connection(source="words", target="scores")],
    ... )
    >>> graph.inputs, graph.outputs
    (['words'], ['scores'])
    """

    layers: dict[str, Layer] = Field(min_length=2)
    connections: list[Connection]

    @model_validator(mode="after")
    def _is_sound(self) -> LayerGraph:
        for look in (_dangling, _unsuitable, _isolated, _cyclic):  # each relies on the checks before it
            if faults := list(look(self)):
                raise ValueError("; ".join(faults))
        return self

    def into(self, layer: str) -> list[Connection]:
        return [connection for connection in self.connections if connection.target == layer]

    def out_of(self, layer: str) -> list[Connection]:
        return [connection for connection in self.connections if connection.source == layer]

    def has_bias(self, name: str) -> bool:
        layer = self.layers[name]
        if layer.kind != "additive":
            return False
        return any(each.weight == "full" for each in self.into(name)) if layer.bias is None else layer.bias

    @property
    def inputs(self) -> list[str]:
        return [name for name, layer in self.layers.items() if layer.is_input]

    @property
    def outputs(self) -> list[str]:
        return [name for name, layer in self.layers.items() if layer.output]


def as_digraph(layers: Iterable[str], connections: Iterable[Connection]) -> nx.DiGraph:
    """The directed graph of the connections between these layers."""
    graph = nx.DiGraph()
    graph.add_nodes_from(layers)
    graph.add_edges_from(
        (each.source, each.target) for each in connections if each.source in graph and each.target in graph
    )
    return graph


def _dangling(graph: LayerGraph) -> Iterator[str]:
    for name in graph.layers:
        if not name.strip():
            yield f"layer {name!r}: a name must not be empty"
    for connection in graph.connections:
        for end in (connection.source, connection.target):
            if end not in graph.layers:
                near = difflib.get_close_matches(end, graph.layers, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                yield f"connection {connection}: there is no layer {end!r}{hint}"


def _unsuitable(graph: LayerGraph) -> Iterator[str]:
    for connection in graph.connections:
        source, target = graph.layers[connection.source], graph.layers[connection.target]
        if target.is_input:
            yield f"connection {connection}: {connection.target!r} is an input layer and cannot be a target"
        elif target.kind == "multiplicative" and connection.weight != "identity":
            yield (
                f"connection {connection}: weights into a multiplicative layer; "
                "put an additive layer between, and an identity connection"
            )
        elif source.kind == "symbols" and (connection.weight != "full" or connection.delay):
            yield (
                f"connection {connection}: a `symbols` layer can only have full connections without delay; "
                "put an additive layer between"
            )
        elif connection.weight != "full" and source.size != target.size:
            yield (
                f"connection {connection}: sizes {source.size} and {target.size}, "
                f"but {connection.weight} connections need layers of equal size"
            )
    ends = Counter((each.source, each.target, each.delay) for each in graph.connections)
    for (source_name, target_name, delay), times in ends.items():
        if times > 1:
            yield f"connection {source_name} -> {target_name} with delay {delay} occurs {times} times"
    for name, layer in graph.layers.items():
        if layer.bias and layer.kind != "additive":
            yield f"layer {name!r}: only additive layers have a bias"
        if layer.is_input and (layer.output or layer.activation != "identity"):
            yield f"layer {name!r}: an input is no output and has no activation"


def _isolated(graph: LayerGraph) -> Iterator[str]:
    if not graph.inputs:
        yield "there is no input"
    if not graph.outputs:
        yield "there is no output: set `output: true` for a layer"
        return
    directed = as_digraph(graph.layers, graph.connections)
    for name, layer in graph.layers.items():
        if not layer.is_input and not graph.into(name):
            yield f"layer {name!r}: it has no incoming connection"
        reached = nx.descendants(directed, name) | {name}
        if reached.isdisjoint(graph.outputs):
            yield f"layer {name!r}: no path leads from it to an output"


def _cyclic(graph: LayerGraph) -> Iterator[str]:
    at_once = as_digraph(graph.layers, (each for each in graph.connections if not each.delay))
    for members in nx.strongly_connected_components(at_once):
        part = at_once.subgraph(members)
        if not nx.is_directed_acyclic_graph(part):
            way = [source for source, _ in nx.find_cycle(part, next(iter(sorted(members))))]
            yield f"a cycle without any delay: {' -> '.join([*way, way[0]])}"


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
    """Return the components of a network in topological order, without the inputs.

    >>> [(part.layers, part.recurrent) for part in components(elman(Layer(size=3, kind="input"), 4))]
    [(['output'], True)]
    """
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
            while joined := _neighbour(graph, merged, cycle):
                merged, cycle = joined
    recurrent = {layer for part in parts if part.recurrent for layer in part.layers}
    return [
        Component(_stages(graph, members), not recurrent.isdisjoint(members), members)
        for members in _in_order(graph, merged)
    ]


def first_frames(graph: LayerGraph, parts: Sequence[Component], back: int) -> dict[str, int]:
    """Return the first frame of each layer that is reached by the errors of the frames from 0 on.

    back: the maximum number of earlier frames; parts: see `components`.
    """
    frames: dict[str, int] = {}
    for part in reversed(parts):
        for layer in part.layers:
            frames[layer] = -back if part.recurrent else _first(graph, layer, frames, back)
    for layer in graph.inputs:
        frames[layer] = _first(graph, layer, frames, back)
    return frames


def first_values(graph: LayerGraph, first: Mapping[str, int]) -> dict[str, int]:
    """Return the first frame of each layer whose values the forward or the backward pass reads.

    first: see `first_frames`.
    """
    frames = {}
    for name, layer in graph.layers.items():
        frames[name] = first[name] if layer.activation != "identity" else 0
        for each in graph.out_of(name):
            # Errors of earlier frames read values if there is a weight or another factor.
            is_factor = (
                graph.layers[each.target].kind == "multiplicative" and len(graph.into(each.target)) > 1
            )
            reads_errors = each.weight != "identity" or is_factor
            frames[name] = min(frames[name], (first[each.target] if reads_errors else 0) - each.delay)
    return frames


def _first(graph: LayerGraph, layer: str, frames: Mapping[str, int], back: int) -> int:
    reached = [frames[each.target] - each.delay for each in graph.out_of(layer)]
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
    condensed = nx.DiGraph()
    condensed.add_nodes_from(group_of.values())
    for each in graph.connections:
        ends = (group_of.get(each.source), group_of.get(each.target))
        if None not in ends and ends[0] != ends[1]:
            condensed.add_edge(*ends)
    return condensed


def _in_order(graph: LayerGraph, groups: nx.DiGraph) -> list[frozenset[str]]:
    position = {name: number for number, name in enumerate(graph.layers)}
    order = nx.lexicographical_topological_sort(
        groups, key=lambda group: min(position[each] for each in group)
    )
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
