"""Well-known networks as graphs, from the layer `input`, of vectors or symbols, to the layer `output`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parser.batching.recurrence.layer_graph import Connection, Layer, LayerGraph

Parts = tuple[dict[str, Layer], list[Connection]]


def elman(inputs: Layer, size: int) -> LayerGraph:
    """Elman 1990: a layer with a recurrent connection to itself."""
    layers, connections = _elman("input", "output", size)
    return _graph(inputs, layers, connections)


def peephole_lstm(inputs: Layer, size: int) -> LayerGraph:
    """Hwang & Sung 2015, Figure 1: gates are connected to the cell, but no layer to earlier outputs."""
    layers, connections = _lstm("input", "output", size, recurrent_output=False)
    for gate, delay in (("input gate", 1), ("forget gate", 1), ("output gate", 0)):
        connections.append(Connection(source="cell", target=gate, weight="diagonal", delay=delay))
    return _graph(inputs, layers, connections)


def lstm(inputs: Layer, size: int) -> LayerGraph:
    """The same as torch.nn.LSTM: gates are connected to the previous output."""
    return _graph(inputs, *_lstm("input", "output", size, recurrent_output=True))


def gru(inputs: Layer, size: int) -> LayerGraph:
    """The same as torch.nn.GRU."""
    layers = {
        "reset gate": Layer(size=size, activation="sigmoid"),
        "update gate": Layer(size=size, activation="sigmoid"),
        "1 - update gate": Layer(size=size, activation="complement"),
        "recurrent": Layer(size=size),
        "gated recurrent": Layer(size=size, kind="multiplicative"),
        "candidate": Layer(size=size, activation="tanh"),
        "weighted candidate": Layer(size=size, kind="multiplicative"),
        "weighted previous": Layer(size=size, kind="multiplicative"),
        "output": Layer(size=size),
    }
    connections = [
        *(Connection(source="input", target=gate) for gate in ("reset gate", "update gate", "candidate")),
        *(
            Connection(source="output", target=gate, delay=1)
            for gate in ("reset gate", "update gate", "recurrent")
        ),
        *_same(
            ("reset gate", "gated recurrent"),
            ("recurrent", "gated recurrent"),
            ("gated recurrent", "candidate"),
        ),
        *_same(
            ("update gate", "1 - update gate"),
            ("1 - update gate", "weighted candidate"),
            ("candidate", "weighted candidate"),
            ("update gate", "weighted previous"),
        ),
        Connection(source="output", target="weighted previous", weight="identity", delay=1),
        *_same(("weighted candidate", "output"), ("weighted previous", "output")),
    ]
    return _graph(inputs, layers, connections)


def two_layers(inputs: Layer, size: int) -> LayerGraph:
    """An LSTM on top of an Elman layer: two components, one after the other."""
    below, into_below = _elman("input", "below", size)
    above, into_above = _lstm("below", "output", size, recurrent_output=True)
    return _graph(inputs, {**below, **above}, [*into_below, *into_above])


EXAMPLES: Mapping[str, Callable[[Layer, int], LayerGraph]] = {
    "elman": elman,
    "peephole-lstm": peephole_lstm,
    "lstm": lstm,
    "gru": gru,
    "two-layers": two_layers,
}
"""Functions that build a graph from an input layer and the hidden size."""


def with_scores(graph: LayerGraph, scores: int) -> LayerGraph:
    """Return the same graph with an additive layer `scores` above `output`, as the only output."""
    hidden = graph.layers["output"].model_copy(update={"output": False})
    return LayerGraph(
        layers={**graph.layers, "output": hidden, "scores": Layer(size=scores, output=True)},
        connections=[*graph.connections, Connection(source="output", target="scores")],
    )


def _graph(inputs: Layer, layers: dict[str, Layer], connections: list[Connection]) -> LayerGraph:
    named = {"input": inputs, **layers}
    named["output"] = named["output"].model_copy(update={"output": True})
    return LayerGraph(layers=named, connections=connections)


def _elman(source: str, name: str, size: int) -> Parts:
    into = [Connection(source=source, target=name), Connection(source=name, target=name, delay=1)]
    return {name: Layer(size=size, activation="tanh")}, into


def _lstm(source: str, name: str, size: int, recurrent_output: bool) -> Parts:
    """Return the layers and connections of an LSTM with forget gates.

    recurrent_output: connect the gates to the previous output.
    """
    gates = ("input gate", "forget gate", "output gate")
    layers = {
        **{gate: Layer(size=size, activation="sigmoid") for gate in gates},
        "cell gate": Layer(size=size, activation="tanh"),
        "gated input": Layer(size=size, kind="multiplicative"),
        "kept cell": Layer(size=size, kind="multiplicative"),
        "cell": Layer(size=size),
        "tanh of cell": Layer(size=size, activation="tanh"),
        name: Layer(size=size, kind="multiplicative"),
    }
    connections = [Connection(source=source, target=gate) for gate in (*gates, "cell gate")]
    if recurrent_output:
        connections += [Connection(source=name, target=gate, delay=1) for gate in (*gates, "cell gate")]
    connections += [
        *_same(("input gate", "gated input"), ("cell gate", "gated input"), ("forget gate", "kept cell")),
        Connection(source="cell", target="kept cell", weight="identity", delay=1),
        *_same(("gated input", "cell"), ("kept cell", "cell"), ("cell", "tanh of cell")),
        *_same(("tanh of cell", name), ("output gate", name)),
    ]
    return layers, connections


def _same(*pairs: tuple[str, str]) -> list[Connection]:
    return [Connection(source=source, target=target, weight="identity") for source, target in pairs]
