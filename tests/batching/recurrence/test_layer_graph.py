"""Networks as graphs of layers, their components and their weights."""

from __future__ import annotations

import pytest
import yaml
from pydantic import ValidationError

from parser.batching.recurrence.examples import EXAMPLES, lstm, peephole_lstm, with_scores
from parser.batching.recurrence.layer_graph import (
    Connection,
    Layer,
    LayerGraph,
    components,
    first_frames,
    with_elementwise_neighbours,
)
from parser.batching.recurrence.weights import Weights, bundles_of

SOUND = """
layers:
  words: {size: 9, kind: symbols}
  hidden: {size: 4, activation: tanh}
  gate: {size: 4, kind: multiplicative}
  scores: {size: 6, output: true}
connections:
  - {source: words, target: hidden}
  - {source: hidden, target: hidden, delay: 1}
  - {source: hidden, target: gate, weight: identity}
  - {source: hidden, target: gate, weight: identity, delay: 2}
  - {source: gate, target: scores}
"""


def graph_of(*changes):
    content = yaml.safe_load(SOUND)
    for change in changes:
        change(content)
    return LayerGraph.model_validate(content)


def connect(source, target, **more):
    connection = {"source": source, "target": target, **more}
    return lambda content: content["connections"].append(connection)


def layer(name, **settings):
    return lambda content: content["layers"].update({name: settings})


def test_a_network_can_be_written_in_yaml():
    graph = graph_of()
    assert graph.inputs == ["words"]
    assert graph.outputs == ["scores"]
    assert [name for name in graph.layers if graph.has_bias(name)] == ["hidden", "scores"]


FOUR = {"size": 4}
MULTIPLIED = {"kind": "multiplicative", "bias": True}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([connect("hiden", "gate")], "there is no layer 'hiden'; did you mean 'hidden'"),
        ([layer("end", **FOUR)], "layer 'end': it has no incoming connection"),
        ([layer("end", **FOUR), connect("gate", "end")], "layer 'end': no path leads from it to an output"),
        (
            [layer("wide", size=5, output=True), connect("hidden", "wide", weight="identity")],
            "connection hidden -> wide: sizes 4 and 5, but identity connections",
        ),
        ([connect("hidden", "words")], "'words' is an input layer and cannot be a target"),
        ([connect("scores", "gate")], "scores -> gate: weights into a multiplicative layer"),
        (
            [layer("a", **FOUR), connect("gate", "a"), connect("a", "hidden")],
            "a cycle without any delay: a -> hidden -> gate -> a",
        ),
        ([connect("hidden", "hidden")], "a cycle without any delay: hidden -> hidden"),
        ([connect("words", "scores", delay=1)], "can only have full connections without delay"),
        ([connect("hidden", "hidden", delay=1)], "hidden -> hidden with delay 1 occurs 2 times"),
        ([layer("gate", **FOUR, **MULTIPLIED)], "layer 'gate': only additive layers have a bias"),
        ([layer("words", size=9, kind="symbols", output=True)], "'words': an input is no output"),
        ([layer("scores", size=6)], "there is no output"),
        ([layer(" ", size=6)], "a name must not be empty"),
    ],
)
def test_what_can_not_be_run_is_refused_by_name(changes, message):
    with pytest.raises(ValidationError, match=message):
        graph_of(*changes)


def parts(graph):
    return [(set(part.layers), part.recurrent) for part in components(graph)]


def test_only_cycles_are_sequential():
    inputs = Layer(size=3, kind="input")
    cycle = {"input gate", "forget gate", "gated input", "kept cell", "cell"}
    assert [layers for layers, recurrent in parts(peephole_lstm(inputs, 4)) if recurrent] == [cycle]
    whole = cycle | {"output gate", "cell gate", "tanh of cell", "output"}
    assert parts(lstm(inputs, 4)) == [(whole, True)]
    assert [recurrent for _, recurrent in parts(EXAMPLES["two-layers"](inputs, 4))] == [True, True]


def test_loops_contain_what_only_elementwise_connections_separate_from_a_cycle():
    graph = with_scores(peephole_lstm(Layer(size=3, kind="input"), 4), 5)
    loops = with_elementwise_neighbours(graph, components(graph))
    assert [(part.members, part.recurrent) for part in loops] == [
        (frozenset(graph.layers) - {"input", "scores"}, True),
        (frozenset(["scores"]), False),
    ]


def test_a_layer_that_is_also_behind_a_product_stays_outside_of_the_loop():
    layers = {
        "in": Layer(size=3, kind="input"),
        "cycle": Layer(size=3),
        "product": Layer(size=3),
        "sum": Layer(size=3, output=True),
    }
    connections = [
        Connection(source="in", target="cycle"),
        Connection(source="cycle", target="cycle", weight="diagonal", delay=1),
        Connection(source="cycle", target="product"),
        Connection(source="cycle", target="sum", weight="identity"),
        Connection(source="product", target="sum", weight="identity"),
    ]
    graph = LayerGraph(layers=layers, connections=connections)
    loops = with_elementwise_neighbours(graph, components(graph))
    assert [part.layers for part in loops] == [["cycle"], ["product"], ["sum"]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_parts_come_after_what_they_need(name):
    graph = with_scores(EXAMPLES[name](Layer(size=3, kind="input"), 4), 5)
    done = set(graph.inputs)
    for part in components(graph):
        for stage in part.stages:
            for layer in stage:
                needed = {each.source for each in graph.into(layer) if not each.delay}
                assert needed <= done
            done |= set(stage)
    assert done == graph.layers.keys()


def test_gates_share_one_product():
    graph = lstm(Layer(size=3, kind="input"), 4)
    gates = next(bundle for bundle in bundles_of(graph) if "input gate" in bundle.layers)
    assert gates.width == 16
    assert "cell gate" in (gates.layers[0], gates.layers[-1])  # sigmoids are neighbours


@pytest.mark.parametrize("name", ["update", "training", "a+b", "a.b", "x -> y (delay 1)"])
def test_layers_may_be_called_anything(name):
    layers = {
        "x": Layer(size=2, kind="input"),
        "a": Layer(size=2, output=True),
        "b": Layer(size=2, output=True),
        "y": Layer(size=2, output=True),
        name: Layer(size=2, output=True, bias=True),
    }
    connections = [Connection(source="x", target=target) for target in ("a", "b", name)]
    connections += [
        Connection(source="x", target="y", weight="diagonal", delay=1),
        Connection(source="a", target=name, weight="diagonal"),
    ]
    weights = Weights(LayerGraph(layers=layers, connections=connections)).train()
    places = {weights.of(connection).data_ptr() for connection in connections}
    assert len(places) == len(connections)
    assert sum(parameter.numel() for parameter in weights.parameters()) == 3 * 4 + 2 * 2 + 4 * 2 - 2


def test_errors_of_what_lies_above_a_cycle_stay_in_the_chunk():
    graph = with_scores(peephole_lstm(Layer(size=3, kind="input"), 4), 5)
    first = first_frames(graph, components(graph), back=8)
    assert first["scores"] == first["output"] == first["output gate"] == 0
    assert first["cell"] == first["cell gate"] == first["input"] == -8
