"""Well-known networks as graphs. Their output is the layer `output`; `input` is vectors or symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parser.batching.recurrence.graph import Connection, Layer, LayerGraph

Parts = tuple[dict[str, Layer], list[Connection]]


def elman(inputs: Layer, size: int) -> LayerGraph:
    """Elman 1990: a layer that sees itself one frame ago."""
    layers, connections = _elman("input", "output", size)
    return _graph(inputs, layers, connections)


def peephole_lstm(inputs: Layer, size: int) -> LayerGraph:
    """Hwang & Sung 2015, Figure 1: gates look at the cell, and nothing sees earlier outputs."""
    layers, connections = _lstm("input", "output", size, feeds_back=False)
    for gate, delay in (("in gate", 1), ("forget gate", 1), ("out gate", 0)):
        connections.append(Connection(source="cell", target=gate, weight="diagonal", delay=delay))
    return _graph(inputs, layers, connections)


def lstm(inputs: Layer, size: int) -> LayerGraph:
    """As torch.nn.LSTM: gates see the output of the frame before."""
    return _graph(inputs, *_lstm("input", "output", size, feeds_back=True))


def gru(inputs: Layer, size: int) -> LayerGraph:
    """As torch.nn.GRU."""
    layers = {
        "reset": Layer(size=size, activation="sigmoid"),
        "update": Layer(size=size, activation="sigmoid"),
        "keep": Layer(size=size, activation="complement"),
        "before": Layer(size=size),
        "reset before": Layer(size=size, kind="multiplicative"),
        "candidate": Layer(size=size, activation="tanh"),
        "new": Layer(size=size, kind="multiplicative"),
        "old": Layer(size=size, kind="multiplicative"),
        "output": Layer(size=size),
    }
    connections = [
        *(Connection(source="input", target=gate) for gate in ("reset", "update", "candidate")),
        *(Connection(source="output", target=gate, delay=1) for gate in ("reset", "update", "before")),
        *_same(("reset", "reset before"), ("before", "reset before"), ("reset before", "candidate")),
        *_same(("update", "keep"), ("keep", "new"), ("candidate", "new"), ("update", "old")),
        Connection(source="output", target="old", weight="identity", delay=1),
        *_same(("new", "output"), ("old", "output")),
    ]
    return _graph(inputs, layers, connections)


def two_layers(inputs: Layer, size: int) -> LayerGraph:
    """An LSTM over an Elman layer: two components, one after the other."""
    below, into_below = _elman("input", "below", size)
    above, into_above = _lstm("below", "output", size, feeds_back=True)
    return _graph(inputs, {**below, **above}, [*into_below, *into_above])


EXAMPLES: Mapping[str, Callable[[Layer, int], LayerGraph]] = {
    "elman": elman,
    "peephole-lstm": peephole_lstm,
    "lstm": lstm,
    "gru": gru,
    "two-layers": two_layers,
}
"""From an input layer and a size to a graph."""


def with_scores(graph: LayerGraph, scores: int) -> LayerGraph:
    """The same with an additive output `scores` above `output`."""
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


def _lstm(source: str, name: str, size: int, feeds_back: bool) -> Parts:
    """Layers of an LSTM with forget gates; feeds_back: whether its output is seen one frame later."""
    gates = ("in gate", "forget gate", "out gate")
    layers = {
        **{gate: Layer(size=size, activation="sigmoid") for gate in gates},
        "cell input": Layer(size=size, activation="tanh"),
        "gated input": Layer(size=size, kind="multiplicative"),
        "kept": Layer(size=size, kind="multiplicative"),
        "cell": Layer(size=size),
        "squashed": Layer(size=size, activation="tanh"),
        name: Layer(size=size, kind="multiplicative"),
    }
    connections = [Connection(source=source, target=gate) for gate in (*gates, "cell input")]
    if feeds_back:
        connections += [Connection(source=name, target=gate, delay=1) for gate in (*gates, "cell input")]
    connections += [
        *_same(("in gate", "gated input"), ("cell input", "gated input"), ("forget gate", "kept")),
        Connection(source="cell", target="kept", weight="identity", delay=1),
        *_same(("gated input", "cell"), ("kept", "cell"), ("cell", "squashed")),
        *_same(("squashed", name), ("out gate", name)),
    ]
    return layers, connections


def _same(*pairs: tuple[str, str]) -> list[Connection]:
    return [Connection(source=source, target=target, weight="identity") for source, target in pairs]
