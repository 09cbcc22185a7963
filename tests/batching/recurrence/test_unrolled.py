"""Networks of layers over sequences, compared with torch computing one connection at a time."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from extended import examples, first_of
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from parser.batching.recurrence.examples import EXAMPLES, elman, gru, lstm, peephole_lstm, with_scores
from parser.batching.recurrence.layer_graph import Connection, Layer, LayerGraph, as_digraph
from parser.batching.recurrence.unrolled import Unrolled
from parser.batching.recurrence.weights import Weights

ACTIVATIONS = {
    "identity": lambda rows: rows,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "complement": lambda rows: 1 - rows,
}


@st.composite
def layer_graphs(draw):
    """Any valid network: layers read earlier layers without delay, and all layers with a delay.

    No relu follows a complement: x and 1 - x can cancel up to rounding, where relu's gradient jumps.
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
    """The layers, with a sigmoid for every relu that can be reached from a complement."""
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
    """The layers: those that lead to no output become outputs, and inputs that nothing reads are dropped."""
    directed = as_digraph(layers, connections)
    found = dict(layers)
    for name in reversed(list(layers)):
        outputs = {other for other, layer in found.items() if layer.output}
        if not layers[name].is_input and outputs.isdisjoint(nx.descendants(directed, name) | {name}):
            found[name] = found[name].model_copy(update={"output": True})
    return {name: layer for name, layer in found.items() if not layer.is_input or directed.out_degree(name)}


def made_inputs(graph, frames, streams, generator):
    """The [frames, streams, size] values of each input; [frames, streams] for symbols."""
    made = {}
    for name in graph.inputs:
        layer = graph.layers[name]
        if layer.kind == "symbols":
            made[name] = torch.randint(layer.size, (frames, streams), generator=generator)
        else:
            made[name] = torch.randn(frames, streams, layer.size, generator=generator)
    return made


def plain_values(weights, inputs, before=()):
    """The [streams, size] values of each layer for each frame, by torch, one connection at a time.

    before: frames that were computed already, as this function returns them.
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


VECTORS = Layer(size=3, kind="input")
SIZE = 4
WAYS = [{}, {"by_frame": True}, {"by_frame": True, "gradients_by_frame": True}]


@pytest.fixture(autouse=True, params=[0, 10**9], ids=["merged loops", "cycles only"])
def _loops(request, monkeypatch):
    monkeypatch.setattr("parser.batching.recurrence.layer_graph.MIN_ELEMENTS", request.param)


@pytest.fixture(autouse=True)
def _in_double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def weights_of(graph, seed=0):
    torch.manual_seed(seed)
    weights = Weights(graph)
    for parameter in weights.parameters():
        nn.init.normal_(parameter, std=0.5)
    return weights


def random(seed):
    return torch.Generator().manual_seed(seed)


def errors_for(graph, frames, streams, seed):
    return {
        name: torch.randn(frames, streams, graph.layers[name].size, generator=random(seed + number))
        for number, name in enumerate(graph.outputs)
    }


def backward(unrolled, errors):
    for name, rows in errors.items():
        unrolled.error(name).copy_(rows)
    unrolled.backward()


def gradients(weights):
    return [dense(parameter.grad, parameter) for parameter in weights.parameters()]


def dense(gradient, parameter):
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient.to_dense().clone() if gradient.is_sparse else gradient.clone()


def forget_gradients(weights):
    for parameter in weights.parameters():
        parameter.grad = None


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-9)


def loss_of(values, errors):
    return sum(
        (frame[name] * rows[number]).sum()
        for number, frame in enumerate(values)
        for name, rows in errors.items()
    )


@examples(60)
@given(layer_graphs(), st.integers(1, 3), st.integers(1, 5), st.sampled_from(WAYS), st.integers(0, 99))
def test_any_network_equals_a_plain_one(graph, streams, frames, way, seed):
    weights = weights_of(graph, seed)
    inputs = made_inputs(graph, frames, streams, random(seed))
    errors = errors_for(graph, frames, streams, seed)
    for name in inputs:
        inputs[name].requires_grad_(graph.layers[name].kind == "input")
    plain = plain_values(weights, inputs)
    loss = loss_of(plain, errors)
    if loss.requires_grad:  # what is seen late may not be seen yet
        loss.backward()
    expected, expected_inputs = gradients(weights), {name: rows.grad for name, rows in inputs.items()}
    forget_gradients(weights)

    unrolled = Unrolled(weights, frames, streams, **way, input_errors=True)
    unrolled.forward({name: rows.detach() for name, rows in inputs.items()})
    for name in graph.outputs:
        assert_equal(list(unrolled.output(name)), [frame[name].detach() for frame in plain])
    backward(unrolled, errors)
    assert_equal(gradients(weights), expected)
    for name, rows in expected_inputs.items():
        if rows is not None:
            assert_equal([unrolled.error(name)], [rows])


@pytest.mark.extended
@examples(40)
@given(
    layer_graphs(),
    st.integers(1, 3),
    st.integers(0, 5),
    st.sampled_from(WAYS),
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_errors_go_back_as_far_as_they_may(graph, frames, back, way, chunks, seed):
    weights, streams = weights_of(graph, seed), 2
    unrolled = Unrolled(weights, frames, streams, back, **way)
    inputs = [made_inputs(graph, frames, streams, random(seed + number)) for number in range(chunks)]
    whole = {name: torch.cat([chunk[name] for chunk in inputs]) for name in inputs[0]}
    for number, chunk in enumerate(inputs):
        unrolled.forward(chunk)
        errors = errors_for(graph, frames, streams, seed + number)
        forget_gradients(weights)
        backward(unrolled, errors)
        found = gradients(weights)
        forget_gradients(weights)
        begin = max(0, number * frames - back)
        with torch.no_grad():
            old = {name: rows[:begin] for name, rows in whole.items()}
            constant = plain_values(weights, old) if begin else []
        end = (number + 1) * frames
        plain = plain_values(weights, {name: rows[begin:end] for name, rows in whole.items()}, constant)
        loss = loss_of(plain[-frames:], errors)
        if loss.requires_grad:
            loss.backward()
        assert_equal(found, gradients(weights))


@pytest.mark.parametrize("way", first_of(WAYS))
@pytest.mark.parametrize("name", EXAMPLES)
def test_streams_give_the_gradients_of_copies(name, way):
    graph = with_scores(EXAMPLES[name](Layer(size=7, kind="symbols"), SIZE), 5)
    weights, frames, streams = weights_of(graph), 3, 4
    chunks = [made_inputs(graph, frames, streams, random(number)) for number in range(3)]
    errors = [errors_for(graph, frames, streams, number) for number in range(3)]

    def run(of_stream, number):
        unrolled = Unrolled(weights, frames, number, frames, **way)
        for inputs, wanted in zip(chunks, errors, strict=True):
            unrolled.forward({key: rows[:, of_stream] for key, rows in inputs.items()})
            backward(unrolled, {key: rows[:, of_stream] for key, rows in wanted.items()})

    run(slice(None), streams)
    together = gradients(weights)
    forget_gradients(weights)
    for stream in range(streams):
        run(slice(stream, stream + 1), 1)
    assert_equal(together, gradients(weights))


@pytest.mark.parametrize(
    ("build", "library", "gates"),
    [
        (elman, nn.RNN, ["output"]),
        (lstm, nn.LSTM, ["input gate", "forget gate", "cell gate", "output gate"]),
        (gru, nn.GRU, ["reset gate", "update gate", "candidate"]),
    ],
)
def test_known_networks_equal_the_library(build, library, gates):
    graph = build(VECTORS, SIZE)
    weights, frames, streams = weights_of(graph), 6, 3
    theirs = library(VECTORS.size, SIZE)
    with torch.no_grad():
        for number, gate in enumerate(gates):
            rows = slice(number * SIZE, (number + 1) * SIZE)
            theirs.weight_ih_l0[rows] = weight_between(weights, "input", gate)
            theirs.bias_ih_l0[rows] = weights.bias(gate)
            recurrent = (
                "recurrent" if gate == "candidate" else gate
            )  # in a GRU, reset comes after the product
            theirs.weight_hh_l0[rows] = weight_between(weights, "output", recurrent)
            theirs.bias_hh_l0[rows] = weights.bias("recurrent") if recurrent == "recurrent" else 0
    inputs = torch.randn(frames, streams, VECTORS.size, requires_grad=True)
    errors = torch.randn(frames, streams, SIZE)
    outputs, _ = theirs(inputs)
    (outputs * errors).sum().backward()

    unrolled = Unrolled(weights, frames, streams, input_errors=True)
    unrolled.forward({"input": inputs.detach()})
    assert_equal([unrolled.output("output")], [outputs.detach()])
    backward(unrolled, {"output": errors})
    assert_equal([unrolled.error("input")], [inputs.grad])
    for number, gate in enumerate(gates):
        rows = slice(number * SIZE, (number + 1) * SIZE)
        recurrent = "recurrent" if gate == "candidate" else gate
        mine = [
            gradient_between(weights, "input", gate),
            gradient_between(weights, "output", recurrent),
            bias_gradient(weights, gate),
        ]
        assert_equal(
            mine,
            [theirs.weight_ih_l0.grad[rows], theirs.weight_hh_l0.grad[rows], theirs.bias_ih_l0.grad[rows]],
        )


def connection_between(weights, source, target):
    return next(each for each in weights.graph.into(target) if each.source == source)


def weight_between(weights, source, target):
    return weights.of(connection_between(weights, source, target)).detach()


def bias_gradient(weights, layer):
    bundle = weights.bundle_of[layer]
    return weights.bias_of(bundle).grad[bundle.columns[layer]]


def gradient_between(weights, source, target):
    """The gradient of a connection, read through its view with the gradients in place of the weights."""
    kept = [parameter.detach().clone() for parameter in weights.parameters()]
    with torch.no_grad():
        for parameter in weights.parameters():
            parameter.copy_(parameter.grad)
        found = weight_between(weights, source, target).clone()
        for parameter, before in zip(weights.parameters(), kept, strict=True):
            parameter.copy_(before)
    return found


@pytest.mark.parametrize("by_frame", [False, True])
def test_errors_of_inputs_are_of_all_frames_also_where_nothing_is_weighted(by_frame):
    layers = {
        "in": Layer(size=3, kind="input"),
        "same": Layer(size=3),
        "gate": Layer(size=3, kind="multiplicative"),
        "sum": Layer(size=3, output=True),
    }
    pairs = [("in", "same"), ("same", "gate"), ("in", "gate"), ("gate", "sum")]
    connections = [Connection(source=source, target=target, weight="identity") for source, target in pairs]
    weights = Weights(LayerGraph(layers=layers, connections=connections)).to(torch.float64)
    unrolled = Unrolled(weights, 4, 2, by_frame=by_frame, input_errors=True)
    inputs, errors = torch.randn(4, 2, 3), torch.randn(4, 2, 3)
    unrolled.forward({"in": inputs})
    backward(unrolled, {"sum": errors})
    assert_equal([unrolled.output("sum"), unrolled.error("in")], [inputs**2, 2 * inputs * errors])


def test_an_lstm_with_peepholes_is_that_of_the_paper():
    graph = peephole_lstm(VECTORS, SIZE)
    weights, frames = weights_of(graph), 5
    inputs = torch.randn(frames, 2, VECTORS.size)
    cell, outputs = torch.zeros(2, SIZE), []
    into = {
        gate: weight_between(weights, "input", gate) for gate in ("input gate", "forget gate", "output gate")
    }
    peephole = {gate: weight_between(weights, "cell", gate) for gate in into}
    bias = {gate: weights.bias(gate).detach() for gate in (*into, "cell gate")}

    def gate(name, row, cell):
        return torch.sigmoid(row @ into[name].T + cell * peephole[name] + bias[name])

    for row in inputs:
        new = torch.tanh(row @ weight_between(weights, "input", "cell gate").T + bias["cell gate"])
        cell = gate("input gate", row, cell) * new + gate("forget gate", row, cell) * cell
        outputs.append(gate("output gate", row, cell) * torch.tanh(cell))
    unrolled = Unrolled(weights, frames, 2)
    unrolled.forward({"input": inputs})
    assert_equal([unrolled.output("output")], [torch.stack(outputs)])


def test_forgotten_streams_leave_nothing_behind():
    graph = EXAMPLES["two-layers"](VECTORS, SIZE)
    weights, frames = weights_of(graph), 2
    unrolled = Unrolled(weights, frames, 2, back=3)
    found = []
    for _ in range(2):
        forget_gradients(weights)
        unrolled.forget()
        for number in range(4):
            unrolled.forward(made_inputs(graph, frames, 2, random(number)))
            backward(unrolled, errors_for(graph, frames, 2, number))
        found.append(gradients(weights))
    assert_equal(*found)


def test_wrong_inputs_and_errors_are_told():
    unrolled = Unrolled(weights_of(elman(VECTORS, SIZE)), 2, 3)
    with pytest.raises(ValueError, match="backward before any forward"):
        unrolled.backward()
    with pytest.raises(ValueError, match="inputs given: none; inputs of the network: input"):
        unrolled.forward({})
    with pytest.raises(ValueError, match=r"input 'input' must have the shape \[2, 3, 3\], not \[2, 3\]"):
        unrolled.forward({"input": torch.zeros(2, 3)})
    with pytest.raises(ValueError, match="'input' has no errors: inputs have them with input_errors"):
        unrolled.error("input")
    with pytest.raises(ValueError, match="need frames, streams >= 1 and back >= 0, not 0, 3, 0"):
        Unrolled(weights_of(elman(VECTORS, SIZE)), 0, 3)


@pytest.mark.parametrize("output", [False, True])
def test_gradients_of_tables_are_kept_while_they_are_accumulated(output):
    """Including a table that feeds an output, whose errors are filled in before the backward pass."""
    layers = {
        "in": Layer(size=5, kind="symbols"),
        "rows": Layer(size=3, output=output),
        "out": Layer(size=3, output=True),
    }
    connections = [
        Connection(source="in", target="rows"),
        Connection(source="rows", target="out", weight="identity"),
    ]
    weights = weights_of(LayerGraph(layers=layers, connections=connections))
    table = next(parameter for parameter in weights.parameters() if parameter.dim() == 2)
    unrolled, words = Unrolled(weights, 2, 3), torch.randint(5, (2, 2, 3))
    expected = torch.zeros_like(table)
    for number, chunk in enumerate(words):
        unrolled.forward({"in": chunk})
        errors = errors_for(weights.graph, 2, 3, number)
        backward(unrolled, errors)
        expected.index_add_(0, chunk.flatten(), sum(errors.values()).flatten(0, 1))
    assert_equal([table.grad.to_dense()], [expected])


def test_gradients_are_added_to_those_that_are_there():
    graph = peephole_lstm(Layer(size=7, kind="symbols"), SIZE)
    weights = weights_of(graph)
    unrolled = Unrolled(weights, 3, 2)
    inputs, errors = made_inputs(graph, 3, 2, random(1)), errors_for(graph, 3, 2, 1)
    for _ in range(2):
        unrolled.forget()
        unrolled.forward(inputs)
        backward(unrolled, errors)
    twice = gradients(weights)
    forget_gradients(weights)
    unrolled.forget()
    unrolled.forward(inputs)
    backward(unrolled, errors)
    assert_equal(twice, [2 * gradient for gradient in gradients(weights)])
