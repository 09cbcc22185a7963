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


def of(graph: Graph, *values: Value) -> Tensor:
    return graph.values(values)


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
        torch.testing.assert_close(of(graph, found)[0], expected)


def test_operators_work_in_a_template() -> None:
    def write(writer: Writer, a: Value, b: Value, element: int) -> tuple[Value, Value]:
        return writer.sigmoid(WEIGHT @ (a * b)), (a - b)[element]

    graph = Graph("agenda", "cpu")
    template = Template.trace(write, (4, 4), 1)
    first, second = graph.apply(template, graph.add_values(ROWS), (3,))
    torch.testing.assert_close(of(graph, first)[0], torch.sigmoid(WEIGHT @ (ROWS[0] * ROWS[1])))
    assert of(graph, second).tolist() == [[6.0]]


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
        with pytest.raises(
            TypeError, match=f"a value or a number is wanted, not {type(other).__name__}: `gra"
        ):
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
        with pytest.raises(
            TypeError, match=f"a value is wanted, not {type(other).__name__}: `graph.add_values"
        ):
            take()
    assert not graph.schedule()


def test_division_by_a_value_is_refused_with_what_to_do() -> None:
    a, b = Graph("agenda", "cpu").add_values(ROWS)
    for divide in (lambda: a / b, lambda: 1 / b):
        with pytest.raises(TypeError, match=r"division by a value is no operation .* record a `Module`"):
            divide()


def test_an_unknown_operation_says_what_to_do() -> None:
    graph = Graph("agenda", "cpu")
    with pytest.raises(AttributeError, match=r"no attribute 'softmax'.*`Module\(nn.Softmax\(1\), \(width,"):
        graph.softmax(graph.add_values(ROWS)[0])
    with pytest.raises(AttributeError, match="operation 'exp': `operate"):
        Template.trace(lambda writer, value: writer.exp(value), (4,))
    assert not hasattr(graph, "__deepcopy__")


def test_values_are_made_only_of_tensors() -> None:
    graph = Graph("agenda", "cpu")
    for rows in (ROWS.numpy(), ROWS.tolist()):
        with pytest.raises(
            TypeError, match=r"not of a (ndarray|list): `torch.as_tensor\(rows, dtype=torch.fl"
        ):
            graph.add_values(rows)
    values = graph.add_values(ROWS)
    with pytest.raises(TypeError, match="the gradient must be a tensor, not ndarray"):
        graph.backward(values, ROWS.numpy())


def test_a_tensor_that_is_no_matrix_times_a_value() -> None:
    value = Graph("agenda", "cpu").add_values(ROWS)[0]
    with pytest.raises(ValueError, match=r"must be of shape \[out, in\], not of \[4\]"):
        torch.ones(4) @ value
    with pytest.raises(ValueError, match="a width of 4, but the width that the weight takes is 3"):
        torch.ones(2, 3) @ value


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
        with pytest.raises(
            ValueError, match="a value of another graph or template: a graph gets it by `add_values"
        ):
            mix()


def test_widths_and_slices_that_do_not_fit() -> None:
    graph = Graph("agenda", "cpu")
    value = graph.add_values(ROWS)[0]
    for combine in (lambda: value + value[:2], lambda: value[:2] @ value, lambda: value * value[1]):
        with pytest.raises(ValueError, match=r"a width of ., but the width of the other value is"):
            combine()
    for combine in (lambda: value * value[1], lambda: value[1] * value):
        with pytest.raises(ValueError, match=r"`matrix_product\(number, vector, inner=1\)` multiplies"):
            combine()
    with pytest.raises(ValueError, match="index -5 of Pick is out of range"):
        value[-5]
    with pytest.raises(ValueError, match=r"not 3; `a\[3:4\]` is a fixed element"):
        Template.trace(lambda writer, own: own[-1], (4,))
    with pytest.raises(ValueError, match="a slice of a value must have the step 1, not 2"):
        value[::2]
    with pytest.raises(ValueError, match="slice 3:2 is out of range for a value of width 4"):
        value[3:2]


def test_a_value_is_not_what_it_will_be() -> None:
    graph = Graph("agenda", "cpu")
    value = graph.add_values(ROWS)[0]
    with pytest.raises(TypeError, match=r"may not be computed yet: `graph.values\(\[value\]\)`"):
        bool(value)
    with pytest.raises(TypeError, match="not iterable"):
        list(value)
    with pytest.raises(TypeError, match=r"several values are wanted: for a single one, write \[value\]"):
        graph.values(value)
    with pytest.raises(TypeError, match="must be Tensor, not Value"):
        torch.tanh(value)
    assert repr(value) == "<value 0, of width 4>"


def test_a_value_is_the_same_however_often_it_is_taken_out() -> None:
    graph = Graph("agenda", "cpu")
    values = graph.add_values(ROWS)
    assert values[0] == values[-2] == next(iter(values)) == values[:1][0]
    assert len({*values, *values[::-1]}) == len(values) == 2
    assert values[0] != values[1]
    assert values[0] != Graph("agenda", "cpu").add_values(ROWS)[0]
    assert values[0] != 0


def test_a_layer_is_no_operation():
    graph = Graph("agenda", "cpu")
    [value] = graph.add_values(torch.ones(1, 4))
    with pytest.raises(TypeError, match=r"Linear is no operation: `Module\(layer, widths\)` makes one"):
        graph.operate(torch.nn.Linear(4, 4), (value,))
