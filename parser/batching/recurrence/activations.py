"""The activations of layers, in place, and their backward passes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from parser.batching.activations import tanh_


def _complement_(rows: Tensor) -> Tensor:
    return rows.neg_().add_(1)


def _backward_sigmoid(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(errors, values, grad_input=out)


def _backward_tanh(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(errors, values, grad_input=out)


def _backward_relu(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(errors, values, 0, grad_input=out)


def _backward_complement(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.neg(errors, out=out)


APPLY: dict[str, Callable[[Tensor], object]] = {
    "sigmoid": torch.sigmoid_,
    "tanh": tanh_,
    "relu": torch.relu_,
    "complement": _complement_,
}
"""In place, by name; `identity` is left out."""
BACKWARD: dict[str, Callable[[Tensor, Tensor, Tensor], None]] = {
    "sigmoid": _backward_sigmoid,
    "tanh": _backward_tanh,
    "relu": _backward_relu,
    "complement": _backward_complement,
}
"""Takes the errors of the outputs, the outputs, and a tensor for the errors of the inputs."""
