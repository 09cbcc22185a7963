"""Operations of users that forget an output, a gradient or a parameter are refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest
import torch
from chosen_device import DEVICE
from torch import Tensor, nn

from parser.batching.operations.cells import CellOperation
from parser.batching.operations.elementary_operations import Module
from parser.batching.operations.operation import (
    Operation,
    OperationBatch,
    OperationGradients,
    ParameterGradients,
)
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value

WIDTH = 4


class Square(Operation):
    """A correct operation."""

    outputs: tuple[int, ...] = (WIDTH,)

    def signature(self) -> Hashable:
        return type(self), self.outputs

    def forward(self, batch: OperationBatch) -> None:
        torch.mul(batch.inputs[0], batch.inputs[0], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        return OperationGradients((2 * gradients[0] * batch.inputs[0],))


class Scaled(Square):
    """x * scale, with a trained scale [width]."""

    kept = 1

    def __init__(self, scale: Tensor):
        self.scale, self.parameters = scale, (scale,)

    def signature(self) -> Hashable:
        return type(self), id(self.scale)

    def forward(self, batch: OperationBatch) -> None:
        torch.mul(batch.inputs[0], self.scale, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        return OperationGradients((gradients[0] * self.scale,), (gradients[0] * batch.inputs[0],))

    def accumulate(self, batches: Sequence[tuple[Tensor, ...]], gradients: ParameterGradients) -> None:
        for (rows,) in batches:
            gradients.add(self.scale, rows.sum(0))


def changed(base: type[Operation], **attributes: object) -> Any:
    return type("Changed", (base,), attributes)


def scale() -> nn.Parameter:
    return nn.Parameter(torch.full((WIDTH,), 2.0, device=DEVICE))


def alone(graph: Graph, operation: Operation, value: Value) -> Value:
    return graph.operate(operation, (value,))[0]


def in_a_cell(graph: Graph, operation: Operation, value: Value) -> Value:
    template = Template.trace(
        lambda writer, own: writer.tanh(writer.operate(operation, (own,))[0]), (value.width,)
    )
    return graph.operate(CellOperation(template), (value,))[0]


WAYS = (alone, in_a_cell)
Way = Callable[[Graph, Operation, Value], Value]


def run(operation: Operation, way: Way = alone, method: str = "agenda") -> Tensor:
    """The gradient of three rows of ones, taken by autograd."""
    graph = Graph(method, DEVICE)
    rows = torch.ones(3, WIDTH, device=DEVICE, requires_grad=True)
    graph.values([way(graph, operation, value) for value in graph.add_values(rows)]).sum().backward()
    assert rows.grad is not None
    return rows.grad


def test_a_correct_operation_is_accepted_also_in_inference_mode() -> None:
    own = scale()
    assert run(Square()).tolist() == [[2.0] * WIDTH] * 3
    assert run(Scaled(own)).tolist() == [[2.0] * WIDTH] * 3
    assert own.grad is not None
    assert own.grad.tolist() == [3.0] * WIDTH
    with torch.inference_mode():
        graph = Graph("agenda", DEVICE, gradients=False)
        (value,) = graph.add_values(torch.full((1, WIDTH), 3.0, device=DEVICE))
        assert graph.values([alone(graph, Square(), value)]).tolist() == [[9.0] * WIDTH]


def forward_that_returns(self: Operation, batch: OperationBatch) -> Tensor:
    return batch.inputs[0] ** 2


def forward_that_replaces(self: Operation, batch: OperationBatch) -> None:
    batch.outputs = (batch.inputs[0] ** 2,)


def forward_of_one_of_two(self: Operation, batch: OperationBatch) -> None:
    batch.outputs[1].copy_(batch.inputs[0])


def forward_that_writes_one_twice(self: Operation, batch: OperationBatch) -> None:
    batch.outputs[0].zero_()
    batch.outputs[0].add_(batch.inputs[0])


@pytest.mark.parametrize("method", GRAPH_METHODS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("forward", "outputs", "message"),
    [
        (forward_that_returns, (WIDTH,), r"not written output 0, but returned a tensor of shape \[\d, 4\]"),
        (forward_that_replaces, (WIDTH,), "not written output 0: write into `batch.outputs`"),
        (forward_of_one_of_two, (WIDTH, WIDTH), "not written output 0"),
        (forward_of_one_of_two, (2 * WIDTH, WIDTH), "not written output 0"),
        (forward_that_writes_one_twice, (WIDTH, WIDTH), "not written output 1"),
    ],
)
def test_an_output_that_is_not_written_is_refused(
    forward: Callable[..., object], outputs: tuple[int, ...], message: str, way: Way, method: str
) -> None:
    with pytest.raises(ValueError, match=f"Changed.forward has {message}"):
        run(changed(Square, forward=forward, outputs=outputs)(), way, method)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda x: OperationGradients((x[:, :1],)), r"shape \[3, 1\] .* input 0, which is .* shape \[3, 4\]"),
        (lambda x: OperationGradients((x.sum(0),)), r"shape \[4\] and torch.float32 as the gradient"),
        (lambda x: OperationGradients((x.double(),)), "torch.float64 as the gradient of input 0"),
        (lambda x: OperationGradients((1.0,)), "a float as the gradient of input 0"),
        (lambda x: OperationGradients(()), "returned 0 gradients for 1 inputs: give one for each"),
        (lambda x: OperationGradients((x, x)), "returned 2 gradients for 1 inputs"),
        (lambda x: OperationGradients((x,), (x,)), "returned 1 kept tensors, but its `kept` is 0"),
        (lambda x: OperationGradients(x), "returned inputs that are one tensor: it must return"),
        (lambda x: (x,), "returned a tuple: it must return `OperationGradients"),
        (lambda x: None, "returned a NoneType"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(
    found: Callable[[Tensor], object], message: str, way: Way
) -> None:
    wrong = changed(Square, backward=lambda self, batch, gradients: found(gradients[0]))()
    with pytest.raises((TypeError, ValueError), match=f"Changed.backward .*{message}"):
        run(wrong, way)


def test_a_weight_that_would_get_no_gradient_is_refused() -> None:
    weight, layer = scale(), nn.Linear(WIDTH, WIDTH, device=DEVICE)

    def closing_over_a_tensor(self: Operation, batch: OperationBatch) -> None:
        torch.mul(batch.inputs[0], weight.detach(), out=batch.outputs[0])

    def closing_over_a_layer(self: Operation, batch: OperationBatch) -> None:
        batch.outputs[0].copy_(layer(batch.inputs[0]))

    class Holding(Square):
        def __init__(self, own: object):
            self.own = own

    for operation, name in (
        (changed(Square, forward=closing_over_a_tensor)(), "weight"),
        (changed(Square, forward=closing_over_a_layer)(), "layer"),
        (Holding(weight), "own"),
        (Holding([weight]), "own"),
        (Holding({"scale": weight}), "own"),
        (Holding(layer), "own"),
    ):
        for way in WAYS:
            with pytest.raises(ValueError, match=f"reads `{name}`, which needs a gradient"):
                run(operation, way)
    weight.requires_grad_(False)
    assert run(Holding(weight)).tolist() == [[2.0] * WIDTH] * 3


def test_a_module_with_a_weight_that_is_not_registered_is_refused() -> None:
    class Layers(nn.Module):
        def __init__(self, layers: Any):
            super().__init__()
            self.layers = layers

        def forward(self, rows: Tensor) -> Tensor:
            for layer in self.layers:
                rows = layer(rows)
            return rows

    layers = [nn.Linear(WIDTH, WIDTH, device=DEVICE), nn.Linear(WIDTH, WIDTH, device=DEVICE)]
    run(Module(Layers(nn.ModuleList(layers)), (WIDTH,)))
    for way in WAYS:
        with pytest.raises(ValueError, match=r"Module\(Layers\) reads a tensor .* ModuleList"):
            run(Module(Layers(layers), (WIDTH,)), way)


def test_gradients_of_parameters_are_complete_and_of_their_shape() -> None:
    def without(self: Operation, batches: object, gradients: object) -> None:
        pass

    def of_one_element(self: Scaled, batches: object, gradients: ParameterGradients) -> None:
        gradients.add(self.scale, torch.ones(1, device=DEVICE))

    def of_another(self: Scaled, batches: object, gradients: ParameterGradients) -> None:
        gradients.add(self.scale, torch.ones(WIDTH, device=DEVICE))
        gradients.add(scale(), torch.ones(WIDTH, device=DEVICE))

    for accumulate, message in (
        (without, r"Changed adds no gradient of its parameter of shape \[4\]"),
        (of_one_element, r"a gradient of shape \[1\] for a parameter of shape \[4\]"),
        (of_another, r"a gradient of a tensor of shape \[4\], which no operation names in `parameters`"),
    ):
        with pytest.raises(ValueError, match=message):
            run(changed(Scaled, accumulate=accumulate)(scale()))


def test_an_incomplete_operation_is_refused_with_what_to_add() -> None:
    for operation, message in (
        (changed(Operation, outputs=(WIDTH,))(), "Changed has no `signature`: it must return a key"),
        (changed(Square, outputs=())(), r"the `outputs` \(\): they must be the widths"),
        (changed(Square, outputs=WIDTH)(), "the `outputs` 4: they must be the widths .* a tuple"),
        (Square, "Square is no operation: .* must be called to make one"),
        (nn.Tanh(), "Tanh is no operation: `Module"),
    ):
        own: Any = operation
        for way in WAYS:
            with pytest.raises((NotImplementedError, TypeError), match=message):
                run(own, way)
    for method, missing in (("forward", "no `forward`"), ("backward", "no `backward`")):
        operation = changed(Square, **{method: getattr(Operation, method)})()
        with pytest.raises(NotImplementedError, match=f"Changed has {missing}"):
            run(operation)
