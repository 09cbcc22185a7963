"""The activations of layers, in place, and what they make of errors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from parser.batching.activations import tanh_


def _complement_(rows: Tensor) -> Tensor:
    return rows.neg_().add_(1)


def _through_sigmoid(errors: Tensor, values: Tensor, place: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(errors, values, grad_input=place)


def _through_tanh(errors: Tensor, values: Tensor, place: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(errors, values, grad_input=place)


def _through_relu(errors: Tensor, values: Tensor, place: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(errors, values, 0, grad_input=place)


def _through_complement(errors: Tensor, values: Tensor, place: Tensor) -> None:
    torch.neg(errors, out=place)


APPLY: dict[str, Callable[[Tensor], object]] = {
    "sigmoid": torch.sigmoid_,
    "tanh": tanh_,
    "relu": torch.relu_,
    "complement": _complement_,
}
"""In place; `identity` is not among them."""
THROUGH: dict[str, Callable[[Tensor, Tensor, Tensor], None]] = {
    "sigmoid": _through_sigmoid,
    "tanh": _through_tanh,
    "relu": _through_relu,
    "complement": _through_complement,
}
"""Errors of the values, the values, and a place for the errors of what the activation was applied to."""
