"""Graphs within PyTorch: in modules, between layers, with hooks, in several processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from parser.batching.levels import Integers
from parser.batching.operations.elementary_operations import Module
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.static_computation import StaticApplications, StaticComputation
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer

CPU = torch.device("cpu")
SIZE, WORDS, LABELS = 3, 7, 4
SENTENCES = ([1, 2, 3], [4], [5, 6, 1, 2], [3, 3])
TARGETS = torch.tensor([0, 2, 1, 3])


class Reader(nn.Module):
    """An embedding, a recurrence and scores. The recurrence is a graph, or runs one sentence at a time."""

    def __init__(self, method: str | None):
        """method: None to use PyTorch only."""
        super().__init__()
        torch.manual_seed(1)
        self._method = method
        self.words = nn.Embedding(WORDS, SIZE)
        self.step = nn.Linear(2 * SIZE, SIZE)
        self.scores = nn.Linear(SIZE, LABELS)
        self.double()

    def forward(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """[sentences, labels]"""
        vectors = [self.words(torch.tensor(sentence)) for sentence in sentences]
        states = self._one_by_one(vectors) if self._method is None else self._by_graph(vectors, self._method)
        return self.scores(self.step(torch.cat([states, states], 1)))  # the graph uses `step`, too

    def _one_by_one(self, vectors: Sequence[Tensor]) -> Tensor:
        found = []
        for rows in vectors:
            state = rows[0]
            for row in rows[1:]:
                state = torch.tanh(self.step(torch.cat([state, row])))
            found.append(state)
        return torch.stack(found)

    def _by_graph(self, vectors: Sequence[Tensor], method: str) -> Tensor:
        graph = Graph(method, CPU, torch.double)
        template = Template.trace(self._write, (SIZE, SIZE))
        states = []
        for rows in vectors:
            state, *others = graph.add_values(rows)
            for value in others:
                (state,) = graph.apply(template, (state, value))
            states.append(state)
        return graph.values(states)

    def _write(self, writer: Writer, state: Value, word: Value) -> Value:
        return writer.tanh(writer.linear(self.step.weight, state, word, bias=self.step.bias))


def gradients_of(model: nn.Module) -> list[Tensor]:
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def loss_of(
    model: nn.Module, sentences: Sequence[Sequence[int]] = SENTENCES, targets: Tensor = TARGETS
) -> Tensor:
    return nn.functional.cross_entropy(model(sentences), targets, reduction="sum")


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_a_module_between_layers_learns_as_one_by_one(method: str) -> None:
    plain, batched = Reader(None), Reader(method)
    asked = [torch.autograd.grad(loss_of(model), list(model.parameters())) for model in (plain, batched)]
    torch.testing.assert_close(*asked, rtol=1e-12, atol=1e-12)
    assert not gradients_of(batched)
    optimizers = [torch.optim.Adam(model.parameters()) for model in (plain, batched)]
    for _ in range(3):
        losses = []
        for model, optimizer in zip((plain, batched), optimizers, strict=True):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.testing.assert_close(*losses, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradients_of(batched), gradients_of(plain), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_what_was_computed_outside_goes_in_again(method: str) -> None:
    """Both tensors have a part in the loss, and the second is computed from the first."""

    def loss_of_both(graph: Graph | None, weight: Tensor, rows: Tensor) -> Tensor:
        if graph is None:
            first = torch.tanh(rows @ weight.T)
            second = torch.sigmoid(first.exp() @ weight.T) + first
            return (first * rows).sum() + second.square().sum()
        states = [graph.tanh(graph.linear(weight, value)) for value in graph.add_values(rows)]
        first = graph.values(states)
        again = graph.add_values(first.exp())
        sums = [
            graph.add(graph.sigmoid(graph.linear(weight, value)), state)
            for value, state in zip(again, states, strict=True)
        ]
        return (first * rows).sum() + graph.values(sums).square().sum()

    found = []
    for graph in (None, Graph(method, CPU, torch.double)):
        torch.manual_seed(2)
        weight = nn.Parameter(torch.randn(SIZE, SIZE, dtype=torch.double))
        rows = torch.randn(5, SIZE, dtype=torch.double, requires_grad=True)
        loss_of_both(graph, weight, rows).backward()
        found.append((weight.grad, rows.grad))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_a_module_as_an_operation_may_lead_to_several_tensors(method: str) -> None:
    found = []
    for recorded in (False, True):
        torch.manual_seed(3)
        layer, rows = nn.Linear(SIZE, SIZE).double(), torch.randn(2, SIZE, dtype=torch.double)
        if recorded:
            graph = Graph(method, CPU, torch.double)
            results = [graph.operate(Module(layer, (SIZE,)), (v,))[0] for v in graph.add_values(rows)]
            outputs = graph.values(results), graph.values([graph.tanh(result) for result in results])
        else:
            outputs = layer(rows), layer(rows).tanh()
        (outputs[0].sum() + outputs[1].square().sum()).backward()
        found.append((layer.weight.grad, layer.bias.grad))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_levels_are_differentiated_too() -> None:
    weight = nn.Parameter(torch.randn(SIZE, SIZE, dtype=torch.double))
    rows = torch.randn(2, SIZE, dtype=torch.double, requires_grad=True)
    template = Template.trace(lambda writer, value: writer.tanh(writer.linear(weight, value)), (SIZE,))
    computation = StaticComputation(CPU, torch.double)
    computation.add_values(0, rows)
    nothing = np.empty((2, 0), np.int64)
    calls = [
        StaticApplications(template, place + 2, place[:, None], nothing, np.full(2, level))
        for level, place in enumerate((np.arange(2), np.arange(2, 4)))
    ]
    computation.run(computation.schedule(calls))
    found = torch.autograd.grad(computation.rows([4, 5], SIZE).sum(), (weight, rows))
    plain = torch.tanh(torch.tanh(rows @ weight.T) @ weight.T)
    torch.testing.assert_close(found, torch.autograd.grad(plain.sum(), (weight, rows)))
    with pytest.raises(ValueError, match="value 5 is of width 3, not 2"):
        computation.rows(np.array([5]), 2)
    with pytest.raises(ValueError, match="there is no value 6: it is neither given nor the result of a call"):
        computation.backward([6], torch.ones(1, SIZE, dtype=torch.double))


def test_calls_of_a_static_structure_take_what_their_template_takes() -> None:
    template = Template.trace(lambda writer, value: writer.tanh(value), (SIZE,))
    picking = Template.trace(lambda writer, value, place: value[place], (SIZE,), 1)
    one, nothing = np.zeros(1, np.int64), np.empty((1, 0), np.int64)

    def schedule(arguments: list[int], template: Template = template, indices: Integers = nothing) -> None:
        computation = StaticComputation(CPU, torch.double)
        computation.add_values(0, torch.ones(1, SIZE, dtype=torch.double))
        computation.add_values(3, torch.ones(1, 2, dtype=torch.double))
        computation.schedule([StaticApplications(template, one + 4, np.array([arguments]), indices, one)])

    schedule([0])
    for arguments, message in (
        ([3], r"widths \[2\] given, but the template takes widths \[3\]"),
        ([0, 0], "2 values given, but the template takes 1"),
        *(([missing], f"there is no value {missing}") for missing in (-1, 1, 9)),
    ):
        with pytest.raises(ValueError, match=message):
            schedule(arguments)
    with pytest.raises(ValueError, match="index 3 of Pick is out of range: it must be from 0 to 2"):
        schedule([0], picking, np.array([[SIZE]]))


def test_without_gradients_a_tensor_belongs_to_no_graph() -> None:
    model = Reader("agenda")
    with torch.no_grad():
        assert not model._by_graph([model.words(torch.tensor([1, 2]))], "agenda").requires_grad
    graph = Graph("agenda", CPU, torch.double, gradients=False)
    assert not graph.values([graph.lookup(model.words.weight, 1)]).requires_grad


def test_hooks_see_the_gradients_of_parameters() -> None:
    model, seen = Reader("agenda"), []
    model.step.weight.register_hook(lambda gradient: 2 * gradient)
    model.scores.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter))
    model.step.bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter))
    loss_of(model).backward()
    plain = Reader(None)
    loss_of(plain).backward()
    assert {id(parameter) for parameter in seen} == {id(model.scores.weight), id(model.step.bias)}
    torch.testing.assert_close(model.step.weight.grad, 2 * plain.step.weight.grad)


class Widening(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows.double()


def test_errors_say_which_type_is_meant() -> None:
    graph = Graph("agenda", CPU)
    value = graph.add_values(torch.ones(1, SIZE))[0]
    module = Module(nn.Linear(SIZE, 2).double(), (2,))
    for give, message in (
        (lambda: graph.add_values(torch.ones(3)), r"not of one of shape \[3\]: a single value is `rows"),
        (lambda: graph.add_values(torch.ones(1, 2, 3)), r"not of one of shape \[1, 2, 3\]$"),
        (lambda: graph.add_values(torch.ones(1, 2, dtype=torch.int64)), r"by `rows.to\(torch.float32\)`$"),
        (lambda: graph.add_values(torch.ones(3, 2, dtype=torch.double)), "with dtype=torch.float64"),
        (lambda: graph.operate(module, (value,)), "parameters of torch.float64, .* with dtype=torch.float64"),
        (lambda: graph.backward([value], torch.ones(1, SIZE).double()), "a gradient of torch.float64"),
        (lambda: graph.backward([value], torch.ones(SIZE)), r"must be \[1, width\], .*, not \[3\]"),
    ):
        with pytest.raises(ValueError, match=message):
            give()
    graph.operate(Module(Widening(), (SIZE,)), (value,))
    with pytest.raises(ValueError, match=r"returned torch.float64, .* with dtype=torch.float64"):
        graph.forward()


def train_in_process(rank: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = DistributedDataParallel(Reader("agenda"))
    loss_of(model, SENTENCES[rank::2], TARGETS[rank::2]).backward()
    torch.save(gradients_of(model), Path(folder, f"{rank}.pt"))
    # A model of DistributedDataParallel keeps the group, and with it threads that may abort the process if
    # they have a tensor when Python ends (https://github.com/pytorch/pytorch/pull/179291).
    os._exit(0)


@pytest.mark.extended
def test_processes_share_gradients(tmp_path: Path) -> None:
    processes.spawn(train_in_process, (str(tmp_path),), nprocs=2)
    plain = Reader(None)
    loss_of(plain).backward()
    for rank in range(2):
        mean = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close([2 * gradient for gradient in mean], gradients_of(plain))


def product(weight: Tensor) -> tuple[Graph, Value]:
    """A graph and its product of the weight and a vector of ones."""
    graph = Graph("agenda", CPU)
    (value,) = graph.add_values(torch.ones(1, SIZE))
    return graph, weight @ value


def test_gradients_are_not_taken_twice_unless_the_graph_is_retained() -> None:
    weight, ones = nn.Parameter(torch.ones(SIZE, SIZE)), torch.ones(1, SIZE)
    graph, result = product(weight)
    total = graph.values([result]).sum()
    total.backward(retain_graph=True)
    total.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()
    assert (weight.grad == 2).all()
    graph, result = product(weight)
    total = graph.values([result]).sum()
    graph.backward([result], ones)
    with pytest.raises(RuntimeError, match="`backward` of the graph was called before"):
        total.backward()
    with pytest.raises(ValueError, match="backward was called before"):
        graph.backward([result], ones)
    assert (weight.grad == 3).all()


def test_parameters_must_not_change_between_values_and_their_gradients() -> None:
    """As with autograd, this holds only for the parameters from which the values were computed."""
    weight, other = (nn.Parameter(torch.ones(SIZE, SIZE)) for _ in range(2))
    for direct in (False, True):
        graph, result = product(weight)
        other @ result
        total = graph.values([result]).sum()
        other.detach().mul_(0.5)
        total.backward(retain_graph=True)
        weight.detach().mul_(0.5)
        with pytest.raises(RuntimeError, match=r"of shape \[3, 3\], was changed in place"):
            graph.backward([result], torch.ones(1, SIZE)) if direct else total.backward()


def test_a_graph_that_goes_on_after_a_change_is_differentiated_from_there_on() -> None:
    weight = nn.Parameter(torch.ones(SIZE, SIZE))
    graph, before = product(weight)
    graph.forward()
    weight.detach().mul_(0.5)
    after = weight @ graph.add_values(torch.ones(1, SIZE))[0]
    values = graph.values([after])
    assert values.tolist() == [[SIZE / 2] * SIZE]
    torch.autograd.grad(values.sum(), weight)
    both = weight @ before
    with pytest.raises(RuntimeError, match="was changed in place"):
        torch.autograd.grad(graph.values([both]).sum(), weight)


def test_parameters_made_in_inference_mode_have_no_count_of_changes() -> None:
    with torch.inference_mode():
        graph, result = product(nn.Parameter(torch.ones(SIZE, SIZE)))
        assert graph.values([result]).tolist() == [[SIZE] * SIZE]


class Sharing(nn.Module):
    """Autograd gives its two parameters, or its input as well, the same tensor as their gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = (nn.Parameter(torch.randn(1, SIZE, dtype=torch.double)) for _ in range(2))

    def forward(self, value: Tensor) -> Tensor:
        return value + self.first + self.second


@pytest.mark.parametrize("method", GRAPH_METHODS)
def test_gradients_that_share_memory_are_added_up_apart(method: str) -> None:
    found = []
    for recorded in (True, False):
        module, weight = Sharing(), nn.Parameter(torch.ones(SIZE, SIZE, dtype=torch.double))
        rows = torch.arange(SIZE, dtype=torch.double)[None]
        if recorded:
            graph = Graph(method, CPU, torch.double)
            operation, value = Module(module, (SIZE,)), graph.add_values(rows)[0]
            for _ in range(3):
                value = graph.operate(operation, (graph.tanh(graph.linear(weight, value)),))[0]
            output = graph.values([value])
        else:
            output = rows
            for _ in range(3):
                output = module(torch.tanh(output @ weight.T))
        output.square().sum().backward()
        found.append([own.grad for own in (module.first, module.second, weight)])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sparse_first", [True, False])
def test_a_table_may_be_a_weight_too(sparse_first: bool) -> None:
    tied, ones = (
        nn.Parameter(torch.randn(SIZE, SIZE, dtype=torch.double)),
        torch.ones(SIZE, dtype=torch.double),
    )
    graph = Graph("agenda", CPU, torch.double)
    records = [
        lambda: graph.lookup(tied, 1, sparse=True),
        lambda: graph.linear(tied, graph.add_values(ones[None])[0]),
    ]
    for record in records if sparse_first else records[::-1]:
        graph.values([record()]).square().sum().backward()
    expected = torch.autograd.grad(tied[1].square().sum() + (tied @ ones).square().sum(), tied)
    torch.testing.assert_close(tied.grad.to_dense(), *expected)


def test_a_template_must_not_depend_on_the_number_of_an_index() -> None:
    def chosen(writer: Writer, value: Value, kind: int) -> Value:
        return writer.tanh(value) if kind == 0 else writer.relu(value)

    with pytest.raises(TypeError, match="an index has no number while a template is traced"):
        Template.trace(chosen, (SIZE,), indices=1)
