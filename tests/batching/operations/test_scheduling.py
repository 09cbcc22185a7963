"""Which operations run together, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.patterns import Patterns
from parser.batching.operations.template import Template, Value, Writer

from .random_computations import (
    DEVICE,
    WIDTH,
    Parameters,
)


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
