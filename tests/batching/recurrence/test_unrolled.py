import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from parser.batching.recurrence.examples import EXAMPLES, elman, gru, lstm, peephole_lstm, with_scores
from parser.batching.recurrence.graph import Layer
from parser.batching.recurrence.unrolled import Unrolled
from parser.batching.recurrence.weights import Weights

from .graphs import layer_graphs, made_inputs, plain_values

VECTORS = Layer(size=3, kind="input")
SIZE = 4


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


@settings(max_examples=60, deadline=None)
@given(layer_graphs(), st.integers(1, 3), st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_any_network_equals_a_plain_one(graph, streams, frames, by_frame, seed):
    weights = weights_of(graph, seed)
    inputs = made_inputs(graph, frames, streams, random(seed))
    errors = errors_for(graph, frames, streams, seed)
    for name in inputs:
        inputs[name].requires_grad_(graph.layers[name].kind == "input")
    plain = plain_values(weights, inputs)
    loss_of(plain, errors).backward()
    expected, expected_inputs = gradients(weights), {name: rows.grad for name, rows in inputs.items()}
    forget_gradients(weights)

    unrolled = Unrolled(weights, frames, streams, by_frame=by_frame, input_errors=True)
    unrolled.forward({name: rows.detach() for name, rows in inputs.items()})
    for name in graph.outputs:
        assert_equal(list(unrolled.output(name)), [frame[name].detach() for frame in plain])
    backward(unrolled, errors)
    assert_equal(gradients(weights), expected)
    for name, rows in expected_inputs.items():
        if rows is not None:
            assert_equal([unrolled.error(name)], [rows])


@settings(max_examples=40, deadline=None)
@given(
    layer_graphs(), st.integers(1, 3), st.integers(0, 5), st.booleans(), st.integers(2, 4), st.integers(0, 99)
)
def test_errors_go_back_as_far_as_they_may(graph, frames, back, by_frame, chunks, seed):
    weights, streams = weights_of(graph, seed), 2
    unrolled = Unrolled(weights, frames, streams, back, by_frame)
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


@pytest.mark.parametrize("by_frame", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_streams_give_the_gradients_of_copies(name, by_frame):
    graph = with_scores(EXAMPLES[name](Layer(size=7, kind="symbols"), SIZE), 5)
    weights, frames, streams = weights_of(graph), 3, 4
    chunks = [made_inputs(graph, frames, streams, random(number)) for number in range(3)]
    errors = [errors_for(graph, frames, streams, number) for number in range(3)]

    def run(of_stream, number):
        unrolled = Unrolled(weights, frames, number, frames, by_frame)
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
        (lstm, nn.LSTM, ["in gate", "forget gate", "cell input", "out gate"]),
        (gru, nn.GRU, ["reset", "update", "candidate"]),
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
            recurrent = "before" if gate == "candidate" else gate  # in a GRU, reset comes after the product
            theirs.weight_hh_l0[rows] = weight_between(weights, "output", recurrent)
            theirs.bias_hh_l0[rows] = weights.bias("before") if recurrent == "before" else 0
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
        recurrent = "before" if gate == "candidate" else gate
        mine = [
            gradient_between(weights, "input", gate),
            gradient_between(weights, "output", recurrent),
        ]
        assert_equal(mine, [theirs.weight_ih_l0.grad[rows], theirs.weight_hh_l0.grad[rows]])


def connection_between(weights, source, target):
    return next(each for each in weights.graph.into(target) if each.source == source)


def weight_between(weights, source, target):
    return weights.of(connection_between(weights, source, target)).detach()


def gradient_between(weights, source, target):
    """Read through the view, by taking the gradients for the weights."""
    kept = [parameter.detach().clone() for parameter in weights.parameters()]
    with torch.no_grad():
        for parameter in weights.parameters():
            parameter.copy_(parameter.grad)
        found = weight_between(weights, source, target).clone()
        for parameter, before in zip(weights.parameters(), kept, strict=True):
            parameter.copy_(before)
    return found


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
