"""Elementwise operations, and reductions over the elements of a value."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from parser.batching.activations import write_tanh
from parser.batching.operations.operation import Operation, OperationBatch, OperationGradients

Rows = Sequence[Tensor]


class Elementwise(Operation):
    """Inputs and output have the same width; there are no parameters."""

    def __init__(self, width: int):
        self.outputs = (width,)

    def signature(self) -> Hashable:
        return type(self), self.outputs


class Add(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.add(batch.inputs[0], batch.inputs[1], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((gradients[0], gradients[0]))


class Multiply(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.mul(batch.inputs[0], batch.inputs[1], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((gradients[0] * batch.inputs[1], gradients[0] * batch.inputs[0]))


class Tanh(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        write_tanh(batch.inputs[0], batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((torch.ops.aten.tanh_backward(gradients[0], batch.outputs[0]),))


class Sigmoid(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.sigmoid(batch.inputs[0], out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((torch.ops.aten.sigmoid_backward(gradients[0], batch.outputs[0]),))


class Relu(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.clamp(batch.inputs[0], min=0, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((gradients[0] * (batch.outputs[0] > 0),))


class LogSoftmax(Elementwise):
    def forward(self, batch: OperationBatch) -> None:
        torch.log_softmax(batch.inputs[0], 1, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        probability = batch.outputs[0].exp()
        return OperationGradients((gradients[0] - probability * gradients[0].sum(1, keepdim=True),))


class Dropout(Elementwise):
    """Inverted dropout. The identity unless training."""

    def __init__(self, width: int, probability: float, training: bool):
        super().__init__(width)
        if not 0 <= probability < 1:
            raise ValueError(f"dropout probability {probability} must be from 0 to below 1")
        self.probability, self.training = probability, training

    def signature(self) -> Hashable:
        return type(self), self.outputs, self.probability, self.training

    def forward(self, batch: OperationBatch) -> None:
        if not self.training:
            batch.outputs[0].copy_(batch.inputs[0])
            return
        kept = 1 - self.probability
        batch.saved = torch.empty_like(batch.outputs[0]).bernoulli_(kept).div_(kept)
        torch.mul(batch.inputs[0], batch.saved, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((gradients[0] * batch.saved if self.training else gradients[0],))


class Sum(Elementwise):
    """The sum of values of equal width."""

    def __init__(self, width: int, values: int):
        super().__init__(width)
        self.values = values

    def signature(self) -> Hashable:
        return type(self), self.outputs, self.values

    def packs(self, arguments: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(arguments)),)

    def forward(self, batch: OperationBatch) -> None:
        torch.sum(batch.inputs[0].view(-1, self.values, *self.outputs), 1, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((gradients[0].repeat(1, self.values),))


class Concatenate(Operation):
    """Concatenation of values of any widths."""

    def __init__(self, widths: tuple[int, ...]):
        self.widths = widths
        self.outputs = (sum(widths),)

    def signature(self) -> Hashable:
        return type(self), self.widths

    def forward(self, batch: OperationBatch) -> None:
        torch.cat(list(batch.inputs), 1, out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients(gradients[0].split(list(self.widths), 1))


class Slice(Operation):
    """Elements `start` to `stop` (exclusive) of a value."""

    def __init__(self, width: int, start: int, stop: int):
        self.width, self.columns = width, slice(start, stop)
        self.outputs = (stop - start,)

    def signature(self) -> Hashable:
        return type(self), self.width, self.columns.start, self.columns.stop

    def forward(self, batch: OperationBatch) -> None:
        batch.outputs[0].copy_(batch.inputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients((gradients[0],))


class Pick(Operation):
    """One element of a value, selected by the index."""

    outputs = (1,)
    has_index = True

    def __init__(self, width: int):
        self.width = self.indices = width

    def signature(self) -> Hashable:
        return type(self), self.width

    def forward(self, batch: OperationBatch) -> None:
        torch.gather(batch.inputs[0], 1, _column(batch), out=batch.outputs[0])

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        return OperationGradients(
            (torch.zeros_like(batch.inputs[0]).scatter_(1, _column(batch), gradients[0]),)
        )


class CrossEntropy(Pick):
    """Negative log-likelihood, under a softmax over the value, of the element that the index selects."""

    def forward(self, batch: OperationBatch) -> None:
        batch.saved = torch.log_softmax(batch.inputs[0], 1)
        torch.gather(batch.saved, 1, _column(batch), out=batch.outputs[0]).neg_()

    def backward(self, batch: OperationBatch, gradients: Rows) -> OperationGradients:
        gradient = batch.saved.exp()
        gradient.scatter_add_(1, _column(batch), -torch.ones_like(batch.outputs[0]))
        return OperationGradients((gradient.mul_(gradients[0]),))


def _column(batch: OperationBatch) -> Tensor:
    """[rows, 1]"""
    assert batch.index is not None
    return batch.index[:, None]
