"""Graphs of operations: which run together and in which order, modules, dropout, gradients, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.batching.operations.computation import ValueGradients
from parser.batching.operations.elementary_operations import Dropout, Lookup, Module, Tanh
from parser.batching.operations.layout import Read
from parser.batching.operations.operation import ALL, Operation, OperationBatch
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer

from .random_computations import DEVICE, ENTRIES, WIDTH, Parameters


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
    """Changes its argument in place, and one of its results needs no gradient."""

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


def test_modules_that_can_not_be_run_are_refused() -> None:
    with pytest.raises(TypeError, match=r"are a tuple: \(3\,\) of one"):
        Module(nn.Linear(WIDTH, 3), 3)
    with pytest.raises(TypeError, match=r"must be a torch.nn.Module, not builtin_function"):
        Module(torch.tanh, (WIDTH,))
    graph = Graph("agenda", DEVICE, torch.double)
    values = graph.add_values(torch.ones(2, WIDTH, dtype=torch.double, device=DEVICE))
    graph.operate(Module(nn.Identity(), (1,)), (values[0],))
    with pytest.raises(ValueError, match=r"Module\(Identity\) returned \[\[1, 4\]\] for 1 rows"):
        graph.forward()
    graph = Graph("agenda", DEVICE, torch.double)
    for value in graph.add_values(torch.ones(2, WIDTH, dtype=torch.double, device=DEVICE)):
        graph.operate(Module(nn.Linear(WIDTH + 1, 1).to(DEVICE, torch.double), (1,)), (value,))
    with pytest.raises(RuntimeError, match="cannot be multiplied") as raised:
        graph.forward()
    assert raised.value.__notes__ == ["by Module(Linear), for 1 examples; inputs [rows, width]: [1, 4]"]


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(WIDTH), nn.LazyBatchNorm1d(), nn.SyncBatchNorm(WIDTH)])
def test_a_module_that_mixes_rows_is_refused_unless_it_uses_running_statistics(layer: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), layer)
    with pytest.raises(ValueError, match=r"(BatchNorm1d|SyncBatchNorm) \(1\) in Sequential mixes the rows"):
        Module(module, (WIDTH,))
    Module(module.eval(), (WIDTH,))
    with pytest.raises(ValueError, match=r"BatchNorm1d in BatchNorm1d mixes the rows .* use LayerNorm"):
        Module(nn.BatchNorm1d(WIDTH, track_running_stats=False).eval(), (WIDTH,))


@pytest.mark.parametrize(
    "layer", [nn.GRU(WIDTH, WIDTH), nn.TransformerEncoderLayer(WIDTH, 1), nn.MultiheadAttention(WIDTH, 1)]
)
def test_a_module_that_reads_rows_as_a_sequence_is_refused(layer: nn.Module) -> None:
    with pytest.raises(ValueError, match=f"{type(layer).__name__} reads the rows .* as one sequence"):
        Module(layer.eval(), (WIDTH,))


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
    (gradient,) = graph.backward([])
    assert gradient.tolist() == [[0.0] * 5] * 3


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_what_leads_to_no_loss_gets_no_gradient(method: str) -> None:
    """As with autograd: infinities and weights that do not lead to the loss do not affect its gradients."""
    parameters = Parameters()
    unused = nn.Parameter(torch.ones(1, 2, dtype=torch.double, device=DEVICE))
    graph = Graph(method, DEVICE, torch.double)
    value, infinite = graph.add_values(torch.tensor([[1.0, 2.0], [torch.inf, 1.0]], dtype=torch.double))
    graph.linear(unused, graph.multiply(value, infinite))
    graph.lookup(parameters.table, 3, sparse=True)
    graph.forward()
    seen = graph.lookup(parameters.table, 1, sparse=True)
    loss = graph.add(graph.pick(value, 0), graph.pick(seen, 0))
    (gradient,) = graph.backward([loss])
    assert gradient.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert unused.grad is None
    assert parameters.table.grad.coalesce().indices().tolist() == [[1]]


def test_values_are_not_read_before_their_batches_have_run_or_after_an_error() -> None:
    class Failing(nn.Module):
        def forward(self, rows: Tensor) -> Tensor:
            raise RuntimeError("no memory")

    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.add_values(torch.ones(1, WIDTH, dtype=torch.double))[0]
    results = [graph.tanh(value), graph.sigmoid(value)]
    steps = graph.schedule()
    with pytest.raises(ValueError, match="were scheduled, but not run"):
        graph.values(results)
    graph.run(steps)
    assert graph.values(results)[0, 0].item() == pytest.approx(math.tanh(1))
    result = graph.operate(Module(Failing(), (WIDTH,)), (value,))[0]
    with pytest.raises(RuntimeError, match="no memory"):
        graph.forward()
    for unknown in (result, graph.tanh(result)):
        with pytest.raises(ValueError, match="an error has stopped a batch"):
            graph.values([unknown])


def test_numbers_of_values_are_checked() -> None:
    graph = Graph("agenda", DEVICE, torch.double)
    values = graph.add_values(torch.ones(2, WIDTH, dtype=torch.double))
    assert graph.values(np.array(values.numbers)).shape == (2, WIDTH)
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match=f"there is no value {wrong}"):
            graph.values(np.array([wrong]))
    table = Template.of(Lookup(nn.Embedding(3, WIDTH, dtype=torch.double).weight), ())
    with pytest.raises(ValueError, match="must be integers, not float64"):
        graph.each(table, [], [[0.9]])


class Constant(Operation):
    """An operation without arguments whose value is one."""

    outputs = (1,)

    def signature(self) -> str:
        return "one"

    def forward(self, batch: OperationBatch) -> None:
        batch.outputs[0].fill_(1.0)


def test_errors_say_what_is_wrong() -> None:
    parameters, trace = Parameters(), Template.trace
    graph = Graph("agenda", DEVICE, torch.double)
    value = graph.lookup(parameters.table, 0)
    square, bias, half = parameters.square.weight, parameters.square.bias, graph.slice(value, 0, 2)
    picking = trace(lambda writer, value, label: writer.pick(value, label), (3,), 1)
    constant = trace(lambda writer: writer.operate(Constant(), ())[0], ())
    for make, message in (
        (lambda: trace(lambda writer, value: value, (3,)), "not its own arguments"),
        (lambda: trace(lambda writer, value: (), (3,)), "must return a result"),
        (lambda: trace(lambda writer, value: writer.pick(value, 0), (3,)), "index must be one of the templ"),
        (lambda: trace(lambda writer, v, i: writer.operate(Tanh(3), (v,), i)[0], (3,), 1), "no index"),
        (lambda: trace(lambda writer, value: (writer.tanh(value),) * 2, (3,)), "the same value twice"),
        (lambda: graph.each(constant, []), "must be applied one by one"),
        (lambda: graph.apply(picking, (value,), (0,)), r"widths \[4\] given, but the template .* \[3\]"),
        (lambda: graph.each(picking, [[value]], [[0]]), r"widths \[4\] given, but the template .* \[3\]"),
        (lambda: graph.each(picking, [[value, value]], [[0]]), "columns of different lengths: 2 and 1"),
        (lambda: graph.apply(picking, (value,)), "0 indices given, but the template takes 1"),
        (lambda: graph.chain(picking, picking, []), "a chain needs at least one value"),
        (lambda: Graph("best", DEVICE), "'best'; the methods are none, depth, agenda"),
        (lambda: graph.add(value, half), "a width of 2, but the width of the other value is 4"),
        (lambda: graph.linear(parameters.joining.weight, value), "that the weight takes is 8"),
        (lambda: graph.matrix_product(value, half, WIDTH), "must be multiples of 4"),
        (lambda: graph.slice(value, 2, 9), "slice 2:9 is out of range for a value of width 4"),
        (lambda: graph.sum([]), "at least one value"),
        (lambda: graph.concatenate([]), "at least one value"),
        (lambda: Dropout(WIDTH, 1.0, training=True), "from 0 to below 1"),
        (lambda: graph.linear(2 * square, value), "must be a leaf tensor"),
        (lambda: graph.linear(parameters.square, value), "not Linear: of a layer, give its `weight`"),
        (lambda: graph.linear(bias, value), r"must be of shape \[out, in\], not of \[4\]"),
        (lambda: graph.linear(square[:1].detach(), value, bias=bias), "a bias of 4 elements"),
        (lambda: graph.linear(torch.empty(0, WIDTH, dtype=torch.double), value), "at least one element"),
        (lambda: graph.add_values(torch.empty(1, 0, dtype=torch.double)), r"not of one of shape \[1, 0\]"),
        (lambda: graph.values([value, half]), r"different widths, \[2, 4\]"),
        (lambda: graph.backward([value]), "a loss must be of width 1, not 4"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_a_wrong_index_is_found_at_once_and_the_graph_can_be_used_on(method: str) -> None:
    parameters = Parameters()
    graph = Graph(method, DEVICE, torch.double)
    value = graph.lookup(parameters.table, 0)
    template = Template.trace(
        lambda writer, row, label: writer.cross_entropy(writer.lookup(parameters.table, row), label), (), 2
    )
    for record, message in (
        (lambda: graph.lookup(parameters.table, ENTRIES), "index 6 of Lookup is out of range: .* 0 to 5"),
        (lambda: graph.lookup(parameters.table, -1), "index -1 of Lookup"),
        (lambda: value[9], "index 9 of Pick is out of range: it must be from 0 to 3"),
        (lambda: graph.apply(template, (), (0, WIDTH)), "index 4 of CrossEntropy"),
        (lambda: graph.each(template, (), ([0, 1], [0, WIDTH])), "index 4 of CrossEntropy"),
    ):
        with pytest.raises(ValueError, match=message):
            record()
    assert len(graph.schedule()) == 1
    loss = Graph(method, DEVICE, torch.double)
    row = loss.lookup(parameters.table, 1)
    with pytest.raises(ValueError, match="Nothing was recorded by this call; all before it can be used"):
        loss.cross_entropy(row, WIDTH)
    loss.backward([loss.cross_entropy(row, 0)])
    assert parameters.table.grad.any(1).tolist() == [False, True, *[False] * (ENTRIES - 2)]


def read_of(rows: list[int], columns: slice = ALL) -> Read:
    """A read of these rows, in place if they are contiguous and in order."""
    in_place = rows == list(range(rows[0], rows[0] + len(rows)))
    return Read(WIDTH, columns, rows[0], len(rows), np.array(rows), None if in_place else torch.tensor(rows))


@st.composite
def readers(draw):
    """The rows of each reader: every row once, in any order, and perhaps some rows again."""
    rows = draw(st.permutations(range(draw(st.integers(1, 8)))))
    cuts = sorted(draw(st.sets(st.integers(1, len(rows)))) | {0, len(rows)})
    once = [rows[start:stop] for start, stop in pairwise(cuts)]
    again = draw(st.lists(st.lists(st.sampled_from(rows), min_size=1), max_size=2))
    return len(rows), once + again


@given(readers(), st.integers(0, 2**16), st.booleans(), st.data())
def test_sums_over_the_readers_of_a_value(found, seed, add_all, data):
    count, every = found
    torch.manual_seed(seed)
    reads = [read_of(rows, data.draw(st.sampled_from([ALL, slice(1, 3)]))) for rows in every]
    total = ValueGradients({WIDTH: torch.full((count, WIDTH), torch.nan)}, reads, add_all)
    expected = torch.zeros(count, WIDTH)
    for number, (rows, read) in enumerate(zip(every, reads, strict=True)):
        own = read.columns
        gradient = torch.randn(len(rows), WIDTH)[:, own] if data.draw(st.booleans()) else None
        target = total.target(number, len(rows))
        if gradient is not None and target is not None and data.draw(st.booleans()):
            target.copy_(gradient)  # like an operation that writes its gradient there directly
        else:
            total.add(number, gradient)
        for row, part in zip(rows, () if gradient is None else gradient, strict=gradient is not None):
            expected[row, own] += part
    torch.testing.assert_close(total.of(WIDTH, 0, count), expected)


@pytest.mark.parametrize("add_all", [True, False])
def test_a_gradient_may_be_that_of_other_rows(add_all):
    reads = [read_of([4, 2]), read_of([3, 1])]
    total = ValueGradients({WIDTH: torch.zeros(5, WIDTH)}, reads, add_all)
    total.add(0, torch.tensor([[1.0] * WIDTH, [2.0] * WIDTH]))
    total.add(1, total.of(WIDTH, 2, 3)[::2])  # rows 2 and 4, a view
    assert total.of(WIDTH, 0, 5)[:, 0].tolist() == [0.0, 1.0, 2.0, 2.0, 1.0]


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_nothing_recorded(method: str) -> None:
    graph = Graph(method, DEVICE)
    graph.forward()
    assert graph.schedule() == []
    (nothing,) = graph.each(Template.trace(lambda writer, value: writer.tanh(value), (WIDTH,)), [[]])
    assert not nothing
    assert graph.schedule() == []
    graph.tanh(graph.add_values(torch.ones(1, WIDTH))[0])
    assert len(graph.schedule()) == 1


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
    """Section 3.2: the losses of sequences of different lengths, which batching by depth separates."""

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


def test_only_equal_operations_are_batched() -> None:
    def several(graph: Graph, parameters: Parameters) -> None:
        value = graph.lookup(parameters.table, 0)
        other = nn.Parameter(parameters.square.weight.detach().clone())  # equal, but another parameter
        for weight in (parameters.square.weight, other):
            graph.linear(weight, value)
        for training in (True, False):
            graph.dropout(value, 0.5, training)
        for stop in (2, 3):
            graph.tanh(graph.slice(value, 0, stop))

    for method in ("depth", "agenda"):
        assert all(count == 1 for _, count in steps_of(method, several))


def test_operations_that_wait_for_each_other_in_a_circle_are_batched_by_depth() -> None:
    """In one example a product comes before the sigmoid, in the other after it. Cheap ones go first."""

    def both(graph: Graph, parameters: Parameters) -> None:
        value = graph.lookup(parameters.table, 0)
        graph.sigmoid(graph.linear(parameters.square.weight, value))
        graph.linear(parameters.square.weight, graph.sigmoid(value))

    def apart(graph: Graph, parameters: Parameters) -> None:
        value = graph.lookup(parameters.table, 0)
        graph.linear(parameters.square.weight, value)
        graph.tanh(value)

    assert steps_of("agenda", both) == [("Lookup", 1), ("Sigmoid", 1), ("Linear", 2), ("Sigmoid", 1)]
    assert [name for name, _ in steps_of("agenda", apart)] == ["Lookup", "Tanh", "Linear"]


def test_rows_lie_in_the_order_of_their_first_readers() -> None:
    parameters = Parameters()
    graph = Graph("agenda", DEVICE, torch.double)
    values = [graph.lookup(parameters.table, row) for row in range(5)]
    for value in values:
        graph.tanh(value)
    for left, right in zip(reversed(values), values, strict=True):
        graph.add(left, right)
    reads = {type(step.operation).__name__: step.inputs for step in graph.schedule()}
    assert reads["Tanh"][0].on_device is None
    left, right = (list(read.rows - min(read.rows)) for read in reads["Add"])
    assert left == list(reversed(right))
    assert sorted(left) == list(range(5))


@pytest.mark.parametrize("method", ["depth", "agenda"])
def test_every_step_of_sequences_of_any_lengths_reads_in_place(method: str) -> None:
    parameters = Parameters()
    graph = Graph(method, DEVICE, torch.double)
    for length in (2, 5, 1, 4, 4, 3):
        state = graph.lookup(parameters.table, length)
        for _ in range(length):
            state = graph.linear(parameters.square.weight, state)
    steps = [step for step in graph.schedule() if type(step.operation).__name__ == "Linear"]
    assert [step.length for step in steps] == [6, 5, 4, 3, 1]
    assert all(read.on_device is None for step in steps for read in step.inputs)
