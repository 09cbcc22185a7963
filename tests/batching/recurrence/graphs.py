"""Networks of layers for the tests, and a plain version of what they compute."""

from __future__ import annotations

import networkx as nx
import torch
from hypothesis import strategies as st

from parser.batching.recurrence.layer_graph import Connection, Layer, LayerGraph, as_digraph

ACTIVATIONS = {
    "identity": lambda rows: rows,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "complement": lambda rows: 1 - rows,
}


@st.composite
def layer_graphs(draw):
    """Any sound network: layers see earlier ones at once, and all with a delay.

    No relu stands behind a complement: x and 1 - x may cancel up to rounding, where relu's gradient jumps.
    """
    sizes = st.integers(1, 3)
    layers = {
        f"in {number}": Layer(size=draw(sizes), kind=draw(st.sampled_from(["input", "symbols"])))
        for number in range(draw(st.integers(1, 2)))
    }
    count = draw(st.integers(1, 6))
    connections = []
    for number in range(count):
        name, size = f"layer {number}", draw(sizes)
        same = [other for other, layer in layers.items() if layer.size == size and layer.kind != "symbols"]
        kinds = ["additive", "additive", "multiplicative"] if same else ["additive"]
        kind = draw(st.sampled_from(kinds))
        bias = draw(st.sampled_from([None, True, False])) if kind == "additive" else None
        activation = draw(st.sampled_from(sorted(ACTIVATIONS)))
        source = draw(st.sampled_from(same if kind == "multiplicative" else sorted(layers)))
        output = draw(st.booleans())
        layers[name] = Layer(size=size, kind=kind, activation=activation, bias=bias, output=output)
        connections.append(_connection(draw, layers, source, name, 0))
    for _ in range(draw(st.integers(0, 8))):
        source, target = draw(st.sampled_from(sorted(layers))), f"layer {draw(st.integers(0, count - 1))}"
        order = list(layers)
        least = 0 if order.index(source) < order.index(target) else 1
        if found := _connection(draw, layers, source, target, least):
            connections.append(found)
    kept = list({(each.source, each.target, each.delay): each for each in connections}.values())
    return LayerGraph(layers=_with_outputs(_without_kinks(layers, kept), kept), connections=kept)


def _connection(draw, layers, source, target, least_delay):
    symbols = layers[source].kind == "symbols"
    equal = layers[source].size == layers[target].size
    kinds = ["full"]
    if layers[target].kind == "multiplicative":
        kinds = ["identity"]
    elif equal and not symbols:
        kinds = ["full", "diagonal", "identity"]
    if kinds == ["identity"] and (symbols or not equal):
        return None
    delay = 0 if symbols else draw(st.integers(least_delay, 3))
    return Connection(source=source, target=target, weight=draw(st.sampled_from(kinds)), delay=delay)


def _without_kinks(layers, connections):
    """Every relu to which a way leads from a complement becomes a sigmoid."""
    directed = as_digraph(layers, connections)
    complements = [name for name, layer in layers.items() if layer.activation == "complement"]
    behind = set().union(*(nx.descendants(directed, name) for name in complements))
    return {
        name: layer.model_copy(update={"activation": "sigmoid"})
        if name in behind and layer.activation == "relu"
        else layer
        for name, layer in layers.items()
    }


def _with_outputs(layers, connections):
    """Every layer from which no way leads to an output becomes one; inputs that nobody reads are left out."""
    directed = as_digraph(layers, connections)
    found = dict(layers)
    for name in reversed(list(layers)):
        outputs = {other for other, layer in found.items() if layer.output}
        if not layers[name].is_input and outputs.isdisjoint(nx.descendants(directed, name) | {name}):
            found[name] = found[name].model_copy(update={"output": True})
    return {name: layer for name, layer in found.items() if not layer.is_input or directed.out_degree(name)}


def made_inputs(graph, frames, streams, generator):
    """[frames, streams, size] of each input, of symbols [frames, streams]."""
    made = {}
    for name in graph.inputs:
        layer = graph.layers[name]
        if layer.kind == "symbols":
            made[name] = torch.randint(layer.size, (frames, streams), generator=generator)
        else:
            made[name] = torch.randn(frames, streams, layer.size, generator=generator)
    return made


def plain_values(weights, inputs, before=()):
    """Each layer's [streams, size] for each frame, by torch and one connection at a time.

    before: frames that were computed already, as this gives them.
    """
    graph, values = weights.graph, list(before)
    at_once = as_digraph(graph.layers, (each for each in graph.connections if not each.delay))
    order = [layer for layer in nx.topological_sort(at_once) if not graph.layers[layer].is_input]
    frames, streams = next(iter(inputs.values())).shape[:2]
    for frame in range(frames):
        now = {}
        for name, rows in inputs.items():
            symbols = graph.layers[name].kind == "symbols"
            size = graph.layers[name].size
            now[name] = torch.nn.functional.one_hot(rows[frame], size).double() if symbols else rows[frame]
        values.append(now)
        for layer in order:
            now[layer] = _plain_layer(weights, values, layer, streams)
    return values[len(before) :]


def _plain_layer(weights, values, name, streams):
    graph, layer = weights.graph, weights.graph.layers[name]
    parts = []
    for connection in graph.into(name):
        size = graph.layers[connection.source].size
        there = len(values) - 1 - connection.delay
        rows = values[there][connection.source] if there >= 0 else torch.zeros(streams, size)
        if connection.weight == "full":
            rows = rows @ weights.of(connection).T
        elif connection.weight == "diagonal":
            rows = rows * weights.of(connection)
        parts.append(rows)
    total = parts[0]
    for part in parts[1:]:
        total = total * part if layer.kind == "multiplicative" else total + part
    if graph.has_bias(name):
        total = total + weights.bias(name)
    return ACTIVATIONS[layer.activation](total)
