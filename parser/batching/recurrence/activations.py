"""The activations of layers, written to a given tensor, and their backward passes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from parser.batching.activations import write_tanh


def _write_sigmoid(rows: Tensor, out: Tensor) -> None:
    torch.sigmoid(rows, out=out)


def _write_relu(rows: Tensor, out: Tensor) -> None:
    torch.clamp_min(rows, 0, out=out)


def _write_complement(rows: Tensor, out: Tensor) -> None:
    torch.neg(rows, out=out).add_(1)


def _backward_sigmoid(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(errors, values, grad_input=out)


def _backward_tanh(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(errors, values, grad_input=out)


def _backward_relu(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(errors, values, 0, grad_input=out)


def _backward_complement(errors: Tensor, values: Tensor, out: Tensor) -> None:
    torch.neg(errors, out=out)


APPLY: dict[str, Callable[[Tensor, Tensor], object]] = {
    "sigmoid": _write_sigmoid,
    "tanh": write_tanh,
    "relu": _write_relu,
    "complement": _write_complement,
}
"""By name; takes the sums and a tensor for the values, which may be the same. `identity` is left out."""
BACKWARD: dict[str, Callable[[Tensor, Tensor, Tensor], None]] = {
    "sigmoid": _backward_sigmoid,
    "tanh": _backward_tanh,
    "relu": _backward_relu,
    "complement": _backward_complement,
}
"""Takes the errors of the outputs, the outputs, and a tensor for the errors of the inputs."""
