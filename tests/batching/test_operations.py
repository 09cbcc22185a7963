"""Every way of batching against torch's own differentiation of one vector after the other."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.batching.operations.cell import CellOperation
from parser.batching.operations.elementwise import Dropout
from parser.batching.operations.graph import METHODS, Graph
from parser.batching.operations.parameterised import Module
from parser.batching.operations.patterns import Patterns
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer

WIDTH, ENTRIES = 4, 6
DEVICE = torch.device(os.environ.get("PARSER_TEST_DEVICE", "cpu"))


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(ENTRIES, WIDTH))
        self.sparse = nn.Parameter(torch.randn(ENTRIES, WIDTH))
        self.square = nn.Linear(WIDTH, WIDTH)
        self.joining = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.to(DEVICE, torch.double)


class Plain:
    """The words of `Writer`, on vectors, at once."""

    def lookup(self, table: Tensor, row: int, sparse: bool = False) -> Tensor:
        return table[row]

    def linear(self, weight: Tensor, *values: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.linear(torch.cat(values), weight, bias)

    add = staticmethod(torch.add)
    multiply = staticmethod(torch.mul)
    tanh = staticmethod(torch.tanh)
    sigmoid = staticmethod(torch.sigmoid)
    relu = staticmethod(torch.relu)

    def log_softmax(self, value: Tensor) -> Tensor:
        return F.log_softmax(value, 0)

    def concatenate(self, values: list[Tensor]) -> Tensor:
        return torch.cat(values)

    def slice(self, value: Tensor, start: int, stop: int) -> Tensor:
        return value[start:stop]

    def sum(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values).sum(0)

    def pick(self, value: Tensor, element: int) -> Tensor:
        return value[element : element + 1]

    def cross_entropy(self, scores: Tensor, label: int) -> Tensor:
        return F.cross_entropy(scores[None], torch.tensor([label], device=DEVICE))[None]

    def module(self, module: nn.Module, *values: Tensor) -> Tensor:
        return module(*(value[None] for value in values))[0]

    def say(self, word: str, parameters: Parameters, left: Tensor, right: Tensor, number: int) -> Tensor:
        return WORDS[word](self, parameters, left, right, number)


# From values of one width to another, by the words of a writer: (writer, parameters, left, right, number).
WORDS: dict[str, Callable] = {
    "lookup": lambda w, p, a, b, n: w.lookup(p.table, n),
    "sparse lookup": lambda w, p, a, b, n: w.lookup(p.sparse, n, sparse=True),
    "linear": lambda w, p, a, b, n: w.linear(p.square.weight, a, bias=p.square.bias),
    "joining": lambda w, p, a, b, n: w.linear(p.joining.weight, a, b),
    "add": lambda w, p, a, b, n: w.add(a, b),
    "multiply": lambda w, p, a, b, n: w.multiply(a, b),
    "tanh": lambda w, p, a, b, n: w.tanh(a),
    "sigmoid": lambda w, p, a, b, n: w.sigmoid(a),
    "relu": lambda w, p, a, b, n: w.relu(a),
    "log_softmax": lambda w, p, a, b, n: w.log_softmax(a),
    "sum": lambda w, p, a, b, n: w.sum([a, b, a]),
    "swap": lambda w, p, a, b, n: w.concatenate([w.slice(a, 1, WIDTH), w.slice(b, 0, 1)]),
    "module": lambda w, p, a, b, n: w.module(p.cell, a, b),
}
LOSSES: dict[str, Callable] = {
    "cross_entropy": lambda w, a, n: w.cross_entropy(a, n % WIDTH),
    "pick": lambda w, a, n: w.pick(a, n % WIDTH),
}


class Modules:
    """A writer that knows one word more."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

    def module(self, module: nn.Module, *values: Value) -> Value:
        return self._writer.operate(Module(module, (WIDTH,)), values)[0]


class Recorded(Graph):
    def say(self, word: str, parameters: Parameters, left: Value, right: Value, number: int) -> Value:
        return WORDS[word](Modules(self), parameters, left, right, number)


def results(values: Tensor, parameters: nn.Module) -> list[Tensor]:
    """With the gradients; that of a parameter which no value needs is zero."""
    gradients = (
        torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in parameters.parameters()
    )
    return [values, *gradients]


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


Example = list[tuple[str, int, int, int]]
"""Words, each with which of the values before it uses, and a number."""
EXAMPLES = st.lists(
    st.tuples(
        st.sampled_from(sorted(WORDS)), st.integers(0, 99), st.integers(0, 99), st.integers(0, ENTRIES - 1)
    ),
    max_size=12,
)


def write(writer, parameters: Parameters, example: Example, loss: str) -> object:
    values = [writer.lookup(parameters.table, 0)]
    for word, left, right, number in example:
        a, b = values[left % len(values)], values[right % len(values)]
        values.append(writer.say(word, parameters, a, b, number))
    return LOSSES[loss](writer, values[-1], 1)


class ByTemplates(Recorded):
    """Each word is an application of a template that was traced once, every other one as a cell."""

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


@settings(deadline=None, max_examples=60)
@given(
    st.lists(EXAMPLES, min_size=1, max_size=5), st.sampled_from(sorted(LOSSES)), st.sets(st.integers(0, 4))
)
def test_every_method_equals_torch(examples: list[Example], loss: str, forward_after: set[int]) -> None:
    parameters = Parameters()
    total = torch.cat([write(Plain(), parameters, example, loss) for example in examples])
    total.sum().backward()
    expected = results(total.detach()[:, None], parameters)
    templates: dict[tuple[str, int], Template] = {}
    patterns = Patterns()  # of all graphs here
    for kind in (Recorded, ByTemplates):
        for method in METHODS:
            parameters.zero_grad()
            graph = kind(method, DEVICE, torch.double, patterns)
            graph.templates = templates
            losses = []
            for place, example in enumerate(examples):
                losses.append(write(graph, parameters, example, loss))
                if place in forward_after:
                    graph.forward()
            values = graph.values(losses)
            graph.backward(losses)
            assert_same(results(values, parameters), expected)


@pytest.mark.parametrize("method", METHODS)
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


@pytest.mark.parametrize("method", METHODS)
def test_nothing_recorded(method: str) -> None:
    graph = Graph(method, DEVICE)
    graph.forward()
    assert graph.schedule() == []


def test_a_template_is_scheduled_as_what_it_consists_of() -> None:
    parameters = Parameters()

    def cell(writer: Writer, left: Value, right: Value) -> Value:
        gates = writer.linear(parameters.joining.weight, left, right)
        return writer.tanh(writer.add(gates, writer.multiply(left, right)))

    template = Template.trace(cell, (WIDTH, WIDTH))
    for method in METHODS:
        counts, values = [], []
        for written in (cell, lambda graph, *values: graph.apply(template, values)[0]):
            graph = Graph(method, DEVICE, torch.double)
            tops = []
            for length in (1, 4, 2, 2):
                state = graph.lookup(parameters.table, length)
                for number in range(length):
                    state = written(graph, state, graph.lookup(parameters.table, number))
                tops.append(state)
            steps = graph.schedule()
            counts.append([(type(step.operation).__name__, step.length) for step in steps])
            graph.run(steps)
            values.append(graph.values(tops))
        assert sorted(counts[0]) == sorted(counts[1])
        torch.testing.assert_close(values[0], values[1])


def steps_of(method: str, write: Callable[[Graph, Parameters], object]) -> list[tuple[str, int]]:
    graph = Graph(method, DEVICE, torch.double)
    write(graph, Parameters())
    return [(type(step.operation).__name__, step.length) for step in graph.schedule()]


def test_the_agenda_waits_for_equal_operations_at_other_depths() -> None:
    """Section 3.2: the losses of sequences of different lengths, which depth tears apart."""

    def sequences(graph: Graph, parameters: Parameters) -> None:
        for length in (1, 2, 3):
            state = graph.lookup(parameters.table, 0)
            for _ in range(length):
                state = graph.linear(parameters.square.weight, state)
            graph.cross_entropy(state, 0)

    products = [("Linear", 3), ("Linear", 2), ("Linear", 1)]
    assert sorted(steps_of("depth", sequences)) == sorted(
        [("Lookup", 3), *products, *[("CrossEntropy", 1)] * 3]
    )
    assert steps_of("agenda", sequences) == [("Lookup", 3), *products, ("CrossEntropy", 3)]
    assert len(steps_of("none", sequences)) == 3 + 6 + 3


def test_among_equals_cheap_operations_go_before_products() -> None:
    def two(graph: Graph, parameters: Parameters) -> None:
        value = graph.lookup(parameters.table, 0)
        graph.linear(parameters.square.weight, value)
        graph.tanh(value)

    assert [name for name, _ in steps_of("agenda", two)] == ["Lookup", "Tanh", "Linear"]


def test_only_equal_operations_are_batched() -> None:
    def several(graph: Graph, parameters: Parameters) -> None:
        value = graph.lookup(parameters.table, 0)
        other = nn.Parameter(parameters.square.weight.detach().clone())  # equal, but another
        for weight in (parameters.square.weight, other):
            graph.linear(weight, value)
        for training in (True, False):
            graph.dropout(value, 0.5, training)
        for stop in (2, 3):
            graph.tanh(graph.slice(value, 0, stop))

    for method in ("depth", "agenda"):
        assert all(count == 1 for _, count in steps_of(method, several))


def test_arguments_in_their_order_are_used_in_place() -> None:
    parameters = Parameters()
    graph = Graph("agenda", DEVICE, torch.double)
    values = [graph.lookup(parameters.table, row) for row in range(5)]
    for value in values:
        graph.tanh(value)
    for value in reversed(values):
        graph.sigmoid(value)
    reads = {type(step.operation).__name__: step.inputs for step in graph.schedule()}
    assert reads["Tanh"][0].rows is None
    assert reads["Sigmoid"][0].rows.tolist() == [4, 3, 2, 1, 0]


def test_dropout_drops_only_in_training() -> None:
    torch.manual_seed(0)
    table = torch.ones(1, 1000, dtype=torch.double, device=DEVICE)
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.lookup(table, 0)
    dropped, kept = graph.dropout(value, 0.25, training=True), graph.dropout(value, 0.25, training=False)
    dropped_values, kept_values = graph.values([dropped, kept])
    assert set(dropped_values.tolist()) == {0.0, 1 / 0.75}
    assert 0.2 < (dropped_values == 0).double().mean() < 0.3
    assert (kept_values == 1).all()


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


def test_patterns_are_found_once() -> None:
    parameters, patterns, found = Parameters(), Patterns(), []
    for _ in range(3):
        graph = Graph("agenda", DEVICE, torch.double, patterns)
        state = graph.lookup(parameters.table, 1)
        for _ in range(3):
            state = graph.tanh(graph.linear(parameters.square.weight, state))
            graph.concatenate([state, state])
        graph.forward()
        found.append(len(patterns.nodes))
    assert found == [found[0]] * 3


class Awkward(nn.Module):
    """Changes its argument in place, and gives one result that needs no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.dropout(rows.mul_(2)), (rows > 0).double()


def test_a_module_may_change_its_arguments_and_runs_in_the_mode_it_was_recorded_in() -> None:
    table = nn.Parameter(torch.ones(1, 1000, dtype=torch.double, device=DEVICE))
    module = Awkward().eval()
    evaluating = Module(module, (1000, 1000))
    training = Module(module.train(), (1000, 1000))
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.lookup(table, 0)
    kept, dropped = (graph.operate(operation, (value,))[0] for operation in (evaluating, training))
    kept_values, dropped_values = graph.values([kept, dropped])
    assert (kept_values == 2).all()
    assert set(dropped_values.tolist()) == {0.0, 4.0}
    losses = [graph.pick(kept, 3)]
    graph.backward(losses)
    assert table.grad is not None
    assert table.grad.nonzero().tolist() == [[0, 3]]
    assert table.grad[0, 3] == 2


def test_a_module_must_give_what_it_was_to_give() -> None:
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.lookup(torch.ones(2, WIDTH, dtype=torch.double, device=DEVICE), 0)
    graph.operate(Module(nn.Identity(), (1,)), (value,))
    with pytest.raises(ValueError, match=r"Identity gives \(\(1, 4\),\) for 1 rows, but was to give widths"):
        graph.forward()


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


def test_gradients_are_taken_once_and_only_where_they_were_asked_for() -> None:
    parameters = Parameters()
    for gradients in (True, False):
        graph = Graph("agenda", DEVICE, torch.double, gradients=gradients)
        loss = graph.pick(graph.lookup(parameters.table, 0), 0)
        if gradients:
            graph.backward([loss])
        with pytest.raises(ValueError, match="there are no gradients"):
            graph.backward([loss])


def test_no_losses() -> None:
    graph = Graph("agenda", DEVICE, torch.double)
    graph.lookup(Parameters().table, 0)
    assert graph.values([]).sum() == 0
    graph.backward([])


def test_errors_say_what_is_wrong() -> None:
    parameters = Parameters()
    with pytest.raises(ValueError, match="'best' is none of the batching methods none, depth, agenda"):
        Graph("best", DEVICE)
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.lookup(parameters.table, 0)
    with pytest.raises(ValueError, match="a width of 2, but the other's width is 4"):
        graph.add(value, graph.slice(value, 0, 2))
    with pytest.raises(ValueError, match="a width of 4, but what the weight takes is 8"):
        graph.linear(parameters.joining.weight, value)
    with pytest.raises(ValueError, match="a slice from 2 to 9 of a value of width 4"):
        graph.slice(value, 2, 9)
    with pytest.raises(ValueError, match="not its own arguments"):
        Template.trace(lambda writer, value: value, (3,))
    with pytest.raises(ValueError, match="the same value twice"):
        Template.trace(lambda writer, value: (writer.tanh(value),) * 2, (3,))
    template = Template.trace(lambda writer, value, label: writer.pick(value, label), (3,), 1)
    with pytest.raises(ValueError, match=r"values of widths \[4\], but the template takes \[3\]"):
        graph.apply(template, (value,), (0,))
    with pytest.raises(ValueError, match="0 indices, but the template takes 1"):
        graph.apply(template, (value,))
    with pytest.raises(ValueError, match="a chain over no values"):
        graph.chain(template, template, [])
    for nothing in (graph.sum, graph.concatenate):
        with pytest.raises(ValueError, match="an operation on no values"):
            nothing([])
    with pytest.raises(ValueError, match="from 0 to below 1"):
        Dropout(WIDTH, 1.0, training=True)
    with pytest.raises(ValueError, match="must not be computed from others"):
        graph.linear(2 * parameters.square.weight, value)
    with pytest.raises(ValueError, match=r"widths \[2, 4\] do not make rows"):
        graph.values([value, graph.slice(value, 0, 2)])
    with pytest.raises(ValueError, match="a loss must be of width 1, not 4"):
        graph.backward([value])
    graph.pick(value, 9)
    with pytest.raises(ValueError, match="index 9, where an operation has 0 to 3"):
        graph.forward()


@pytest.mark.parametrize("method", METHODS)
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
    values = graph.given(rows)
    product = graph.linear(weight, values[1], bias=bias)
    results = [graph.multiply(values[0], product), graph.tanh(product)]
    torch.testing.assert_close(graph.values(results), plain)
    (at_rows,) = graph.backward(results, wanted)
    torch.testing.assert_close((at_rows, weight.grad), expected)
    with pytest.raises(ValueError, match="a value with this gradient must be of width 2, not 4"):
        graph.backward(results, wanted[:, :2])
