"""Values as objects: what operators record, and the errors of operators that record nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer

ROWS = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, -2.0]])
WEIGHT = torch.arange(8.0).reshape(2, 4)
NO_VALUES = [torch.tensor(2.0), torch.ones(4), np.ones(4), "text", None, [1.0]]


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_operators_record_what_they_do_to_tensors(method: str) -> None:
    graph = Graph(method, "cpu")
    a, b = graph.add_values(ROWS)
    x, y = ROWS
    for found, expected in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (WEIGHT @ a, WEIGHT @ x),
        (a @ b, (x @ y)[None]),
        (a[1:3], x[1:3]),
        (a[:], x),
        (a[-3:], x[-3:]),
        (a[2:99], x[2:99]),
        (a[2], x[2:3]),
        (a[-1], x[3:]),
        (a[np.int64(-4)], x[:1]),
        (-a, -x),
        (1 - a, 1 - x),
        (a - 1, x - 1),
        (2 + a + 0.5, 2 + x + 0.5),
        (3 * a * np.float32(0.5), 3 * x * 0.5),
        (a / 4, x / 4),
        (sum([a, b]), x + y),
        (graph.scale(a, 2, shift=-1), 2 * x - 1),
        (graph.tanh(WEIGHT @ (a + b) * (a - b)[:2]), torch.tanh(WEIGHT @ (x + y) * (x - y)[:2])),
    ):
        assert found.width == len(expected)
        torch.testing.assert_close(graph.values([found])[0], expected)


def test_operators_work_in_a_template() -> None:
    def write(writer: Writer, a: Value, b: Value, element: int) -> tuple[Value, Value]:
        return writer.sigmoid(WEIGHT @ (a * b)), (a - b)[element]

    graph = Graph("agenda", "cpu")
    template = Template.trace(write, (4, 4), 1)
    first, second = graph.apply(template, graph.add_values(ROWS), (3,))
    torch.testing.assert_close(graph.values([first])[0], torch.sigmoid(WEIGHT @ (ROWS[0] * ROWS[1])))
    assert graph.values([second]).tolist() == [[6.0]]


@pytest.mark.parametrize("other", NO_VALUES, ids=lambda other: type(other).__name__)
def test_only_values_are_combined_with_values(other: object) -> None:
    graph = Graph("agenda", "cpu")
    value = graph.add_values(ROWS)[0]
    for combine in (
        lambda: value + other,
        lambda: other + value,
        lambda: value - other,
        lambda: other - value,
        lambda: value * other,
        lambda: other * value,
        lambda: value / other,
    ):
        with pytest.raises(TypeError, match=f"a value or a number is wanted, not {type(other).__name__}"):
            combine()
    if not isinstance(other, Tensor):
        with pytest.raises(TypeError, match=f"a parameter must be a tensor, not {type(other).__name__}"):
            other @ value
    assert not graph.schedule()


@pytest.mark.parametrize("other", [*NO_VALUES, 1, 2.5], ids=lambda other: type(other).__name__)
def test_only_values_are_taken_as_values(other: object) -> None:
    graph = Graph("agenda", "cpu")
    value = graph.add_values(ROWS)[0]
    for take in (
        lambda: value @ other,
        lambda: graph.tanh(other),
        lambda: graph.add(value, other),
        lambda: graph.values([value, other]),
        lambda: graph.backward([other]),
    ):
        with pytest.raises(TypeError, match=f"a value is wanted, not {type(other).__name__}"):
            take()
    assert not graph.schedule()


def test_errors_say_what_to_do() -> None:
    graph = Graph("agenda", "cpu")
    a, b = values = graph.add_values(ROWS)
    trace = Template.trace
    for record, message in (
        (lambda: a / b, r"division by a value is no operation .* record a `Module`"),
        (lambda: 1 / b, r"division by a value"),
        (lambda: graph.softmax(a), r"no attribute 'softmax'.*`Module\(nn.Softmax\(1\), \(width,"),
        (lambda: trace(lambda writer, value: writer.exp(value), (4,)), "operation 'exp': `operate"),
        (lambda: graph.add_values(ROWS.numpy()), r"not of a ndarray: `torch.as_tensor"),
        (lambda: graph.add_values(ROWS.tolist()), "not of a list"),
        (lambda: graph.backward(values, ROWS.numpy()), "the gradient must be a tensor, not ndarray"),
        (lambda: torch.ones(4) @ a, r"must be of shape \[out, in\], not of \[4\]"),
        (lambda: torch.ones(2, 3) @ a, "a width of 4, but the width that the weight takes is 3"),
        (lambda: a + a[:2], "but the width of the other value is 4"),
        (lambda: a[:2] @ a, "but the width of the other value is 2"),
        (lambda: a * a[1], r"`matrix_product\(number, vector, inner=1\)` multiplies"),
        (lambda: a[1] * a, r"`matrix_product\(number, vector, inner=1\)` multiplies"),
        (lambda: a[-5], "index -5 of Pick is out of range"),
        (lambda: trace(lambda writer, value: value[-1], (4,)), r"not 3; `a\[3:4\]` is a fixed element"),
        (lambda: a[::2], "a slice of a value must have the step 1, not 2"),
        (lambda: a[3:2], "slice 3:2 is out of range for a value of width 4"),
        (lambda: bool(a), r"may not be computed yet: `graph.values\(\[value\]\)`"),
        (lambda: list(a), "not iterable"),
        (lambda: graph.values(a), r"several values are wanted: for a single one, write \[value\]"),
        (lambda: torch.tanh(a), "must be Tensor, not Value"),
        (
            lambda: graph.operate(torch.nn.Linear(4, 4), (a,)),
            r"Linear is no operation: `Module\(layer, widths",
        ),
    ):
        with pytest.raises((AttributeError, TypeError, ValueError), match=message):
            record()
    assert not hasattr(graph, "__deepcopy__")
    assert repr(a) == "<value 0, of width 4>"


def test_values_of_two_graphs_are_not_mixed() -> None:
    one, other = Graph("agenda", "cpu"), Graph("agenda", "cpu")
    a, b = one.add_values(ROWS)[0], other.add_values(ROWS)[0]
    template = Template.trace(lambda writer, x, y: x + y, (4, 4))
    for mix in (
        lambda: a + b,
        lambda: one.tanh(b),
        lambda: one.concatenate([a, b]),
        lambda: one.values([b]),
        lambda: one.values(other.add_values(ROWS)),
        lambda: one.apply(template, (a, b)),
        lambda: one.each(template, [[a], [b]]),
        lambda: Template.trace(lambda writer, x: x + a, (4,)),
        lambda: Template.trace(lambda writer, x: writer.tanh(a), (4,)),
    ):
        with pytest.raises(ValueError, match="a value of another graph or template"):
            mix()


def test_a_value_is_the_same_however_often_it_is_taken_out() -> None:
    graph = Graph("agenda", "cpu")
    values = graph.add_values(ROWS)
    assert values[0] == values[-2] == next(iter(values)) == values[:1][0]
    assert len({*values, *values[::-1]}) == len(values) == 2
    assert values[0] != values[1]
    assert values[0] != Graph("agenda", "cpu").add_values(ROWS)[0]
    assert values[0] != 0
