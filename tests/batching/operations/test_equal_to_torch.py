"""Every way of batching, compared with torch's own gradients for one vector after the other."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from extended import examples
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.operations.cells import CellOperation
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value

from .random_computations import (
    DEVICE,
    EXAMPLES,
    LOSSES,
    WIDTH,
    WORDS,
    Example,
    Modules,
    Parameters,
    Plain,
    Recorded,
    assert_same,
    results,
    write,
)


class ByTemplates(Recorded):
    """Each word applies a template that was traced once, every other template as a cell."""

    templates: dict[tuple[str, int], Template]

    def say(self, word: str, parameters: Parameters, left: Value, right: Value, number: int) -> Value:
        key = word, number % 2
        if key not in self.templates:
            template = Template.trace(
                lambda writer, a, b, n: WORDS[word](Modules(writer), parameters, a, b, n), (WIDTH,) * 2, 1
            )
            self.templates[key] = (
                Template.of(CellOperation(template), (WIDTH,) * 2) if number % 2 else template
            )
        if number % 3:
            return self.apply(self.templates[key], (left, right), (number,))[0]
        return self.each(self.templates[key], [[left], [right]], [[number]])[0][0]


@examples(60)
@given(
    st.lists(EXAMPLES, min_size=1, max_size=5),
    st.sampled_from(sorted(LOSSES)),
    st.sets(st.integers(0, 4)),
    st.booleans(),
)
def test_every_method_equals_torch(
    examples: list[Example], loss: str, forward_after: set[int], by_autograd: bool
) -> None:
    parameters = Parameters()
    total = torch.cat([write(Plain(), parameters, example, loss) for example in examples])
    total.sum().backward()
    expected = results(total.detach()[:, None], parameters)
    templates: dict[tuple[str, int], Template] = {}
    for kind in (Recorded, ByTemplates):
        for method in GRAPH_METHODS:
            parameters.zero_grad()
            graph = kind(method, DEVICE, torch.double)
            graph.templates = templates
            losses = []
            for place, example in enumerate(examples):
                losses.append(write(graph, parameters, example, loss))
                if place in forward_after:
                    graph.forward()
            values = graph.values(losses)
            if by_autograd:
                values.sum().backward()
            else:
                graph.backward(losses)
            assert_same(results(values.detach(), parameters), expected)


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_what_is_computed_is_used_by_what_is_recorded_later(method: str) -> None:
    parameters = Parameters()
    graph = Recorded(method, DEVICE, torch.double)
    state, plain = graph.lookup(parameters.table, 1), parameters.table[1]
    for _ in range(4):
        state = graph.tanh(graph.linear(parameters.square.weight, state, bias=parameters.square.bias))
        plain = torch.tanh(parameters.square(plain))
        graph.forward()
        torch.testing.assert_close(graph.values([state])[0], plain.detach())
    loss = graph.pick(state, 2)
    graph.forward()
    graph.backward([loss])
    found = results(torch.zeros(1, device=DEVICE), parameters)
    parameters.zero_grad()
    plain[2].backward()
    assert_same(found, results(torch.zeros(1, device=DEVICE), parameters))


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_rows_computed_elsewhere_go_in_and_gradients_come_out(method):
    parameters, rows = Parameters(), torch.randn(3, WIDTH, dtype=torch.double, device=DEVICE)
    rows.requires_grad_()
    wanted = torch.randn(2, WIDTH, dtype=torch.double, device=DEVICE)

    weight, bias = parameters.square.weight, parameters.square.bias
    plain = torch.stack([rows[0] * F.linear(rows[1], weight, bias), F.linear(rows[1], weight, bias).tanh()])
    plain.backward(wanted)
    expected = rows.grad, weight.grad
    rows.grad = weight.grad = None

    graph = Graph(method, DEVICE, torch.double)
    values = graph.add_values(rows)
    product = graph.linear(weight, values[1], bias=bias)
    results = [graph.multiply(values[0], product), graph.tanh(product)]
    torch.testing.assert_close(graph.values(results), plain)
    (at_rows,) = graph.backward(results, wanted)
    torch.testing.assert_close((at_rows, weight.grad), expected)
    with pytest.raises(ValueError, match="a value with this gradient must be of width 2, not 4"):
        graph.backward(results, wanted[:, :2])


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_a_query_is_answered_by_memories_of_different_lengths(method: str) -> None:
    """Attention without parameters, whose products have values on both sides, some of them in one batch."""
    parameters, graph = Parameters(), Graph(method, DEVICE, torch.double)
    answers, plain = [], []
    for rows in ([1, 2, 3], [4], [2, 5, 0]):
        keys, query = parameters.table[rows], parameters.sparse[len(plain)]
        plain.append(torch.sigmoid(keys @ query) @ keys)
        memory = graph.concatenate([graph.lookup(parameters.table, row) for row in rows])
        asked = graph.lookup(parameters.sparse, len(answers), sparse=True)
        weights = graph.sigmoid(graph.matrix_product(memory, asked, inner=WIDTH))
        answers.append(graph.matrix_product(weights, memory, inner=len(rows)))
    wanted = torch.randn(3, WIDTH, dtype=torch.double, device=DEVICE)
    torch.stack(plain).backward(wanted)
    expected = results(torch.stack(plain).detach(), parameters)
    parameters.zero_grad()
    values = graph.values(answers)
    graph.backward(answers, wanted)
    assert_same(results(values, parameters), expected)


@pytest.mark.parametrize("first", [0, 1])
def test_inputs_in_one_piece_and_in_several_are_not_mixed(first: int) -> None:
    parameters = Parameters()
    graph = Graph("agenda", DEVICE, torch.double)
    a, b = (graph.lookup(parameters.table, row) for row in (1, 2))
    whole = graph.concatenate([a, b])
    weight = parameters.joining.weight
    inputs = [(whole,), (a, b)]
    found = graph.values([graph.linear(weight, *inputs[place]) for place in (first, 1 - first)])
    expected = weight @ torch.cat([parameters.table[1], parameters.table[2]])
    torch.testing.assert_close(found, expected.detach().expand(2, -1))


def test_parameters_that_need_no_gradient_get_none() -> None:
    parameters = Parameters()
    parameters.square.requires_grad_(False)
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.linear(
        parameters.square.weight, graph.lookup(parameters.table, 0), bias=parameters.square.bias
    )
    graph.backward([graph.pick(value, 0)])
    assert parameters.square.weight.grad is None
    assert parameters.square.bias.grad is None
    assert parameters.table.grad is not None
