"""Graphs of operations: which run together and in which order, modules, dropout, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.batching.operations.computation import ValueGradients
from parser.batching.operations.elementary_operations import Dropout, Module
from parser.batching.operations.layout import Read
from parser.batching.operations.operation import ALL
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.patterns import Patterns
from parser.batching.operations.template import Template, Value, Writer

from .random_computations import (
    DEVICE,
    WIDTH,
    Parameters,
)


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
    with pytest.raises(ValueError, match=r"Identity returned \(\(1, 4\),\) for 1 rows, but declared"):
        graph.forward()


def test_gradients_are_taken_once_and_only_where_they_were_asked_for() -> None:
    parameters = Parameters()
    for gradients in (True, False):
        graph = Graph("agenda", DEVICE, torch.double, gradients=gradients)
        loss = graph.pick(graph.lookup(parameters.table, 0), 0)
        if gradients:
            graph.backward([loss])
        with pytest.raises(ValueError, match="no gradients: created with gradients=False"):
            graph.backward([loss])


def test_no_losses() -> None:
    graph = Graph("agenda", DEVICE, torch.double)
    graph.lookup(Parameters().table, 0)
    given = graph.add_values(torch.ones(3, 5, dtype=torch.double))
    for value in given:
        graph.tanh(value)
    assert graph.values([]).sum() == 0
    graph.backward([])


def test_errors_say_what_is_wrong() -> None:
    parameters = Parameters()
    with pytest.raises(ValueError, match="no batching method 'best'; the methods are none, depth, agenda"):
        Graph("best", DEVICE)
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.lookup(parameters.table, 0)
    with pytest.raises(ValueError, match="a width of 2, but the width of the other value is 4"):
        graph.add(value, graph.slice(value, 0, 2))
    with pytest.raises(ValueError, match="a width of 4, but the width that the weight takes is 8"):
        graph.linear(parameters.joining.weight, value)
    with pytest.raises(ValueError, match="widths of 4 and 2, but both must be multiples of 4"):
        graph.matrix_product(value, graph.slice(value, 0, 2), WIDTH)
    with pytest.raises(ValueError, match="slice 2:9 is out of range for a value of width 4"):
        graph.slice(value, 2, 9)
    with pytest.raises(ValueError, match="not its own arguments"):
        Template.trace(lambda writer, value: value, (3,))
    with pytest.raises(ValueError, match="the same value twice"):
        Template.trace(lambda writer, value: (writer.tanh(value),) * 2, (3,))
    template = Template.trace(lambda writer, value, label: writer.pick(value, label), (3,), 1)
    with pytest.raises(ValueError, match=r"widths \[4\] given, but the template takes widths \[3\]"):
        graph.apply(template, (value,), (0,))
    with pytest.raises(ValueError, match="0 indices given, but the template takes 1"):
        graph.apply(template, (value,))
    with pytest.raises(ValueError, match="a chain needs at least one value"):
        graph.chain(template, template, [])
    for nothing in (graph.sum, graph.concatenate):
        with pytest.raises(ValueError, match="needs at least one value"):
            nothing([])
    with pytest.raises(ValueError, match="from 0 to below 1"):
        Dropout(WIDTH, 1.0, training=True)
    with pytest.raises(ValueError, match="must be a leaf tensor"):
        graph.linear(2 * parameters.square.weight, value)
    with pytest.raises(ValueError, match=r"values of different widths, \[2, 4\], cannot be rows"):
        graph.values([value, graph.slice(value, 0, 2)])
    with pytest.raises(ValueError, match="a loss must be of width 1, not 4"):
        graph.backward([value])
    graph.pick(value, 9)
    with pytest.raises(ValueError, match="index 9 is out of range: it must be from 0 to 3"):
        graph.forward()


def read_of(rows):
    """In place where the rows are contiguous and in order."""
    first = rows[0]
    if rows == list(range(first, first + len(rows))):
        return Read(WIDTH, first, len(rows))
    return Read(WIDTH, first, len(rows), torch.tensor(rows), np.array(rows))


@st.composite
def readers(draw):
    """The rows of each reader: all rows once, in any order; and perhaps some of them again."""
    rows = draw(st.permutations(range(draw(st.integers(1, 8)))))
    cuts = sorted(draw(st.sets(st.integers(1, len(rows)))) | {0, len(rows)})
    once = [rows[start:stop] for start, stop in pairwise(cuts)]
    again = draw(st.lists(st.lists(st.sampled_from(rows), min_size=1), max_size=2))
    return len(rows), once + again


@given(readers(), st.integers(0, 2**16), st.data())
def test_sums_over_the_readers_of_a_value(found, seed, data):
    count, every = found
    torch.manual_seed(seed)
    columns = data.draw(
        st.lists(st.sampled_from([ALL, slice(1, 3)]), min_size=len(every), max_size=len(every))
    )
    reads = list(zip(map(read_of, every), columns, strict=True))
    total = ValueGradients({WIDTH: torch.full((count, WIDTH), torch.nan)}, reads)
    expected = torch.zeros(count, WIDTH)
    for rows, (read, own) in zip(every, reads, strict=True):
        gradient = torch.randn(len(rows), WIDTH)[:, own] if data.draw(st.booleans()) else None
        total.add(read, own, gradient)
        for place, row in enumerate(rows):
            if gradient is not None:
                expected[row, own] += gradient[place]
    torch.testing.assert_close(total.of(WIDTH, 0, count), expected)


@pytest.mark.parametrize("known", [True, False])
def test_a_gradient_may_be_that_of_other_rows(known):
    first, then = read_of([4, 2]), read_of([3, 1])
    reads = [(first, ALL), (then, ALL), (read_of([0]), ALL)]
    total = ValueGradients({WIDTH: torch.zeros(5, WIDTH)}, reads if known else [])
    total.add(first, ALL, torch.tensor([[1.0] * WIDTH, [2.0] * WIDTH]))
    total.add(then, ALL, total.of(WIDTH, 2, 3)[::2])  # rows 2 and 4, a view
    assert total.of(WIDTH, 1, 4)[:, 0].tolist() == [1.0, 2.0, 2.0, 1.0]


@pytest.mark.parametrize("method", GRAPH_METHODS)
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
    for method in GRAPH_METHODS:
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
