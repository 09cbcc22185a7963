"""The definition of a recurrent network: layers, and connections with delays (Hwang & Sung 2015)."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, model_validator

Activation = Literal["identity", "sigmoid", "tanh", "relu", "complement"]
INPUTS = ("input", "symbols")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Layer(_Part):
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
    which names the layers."""

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
