"""The autograd graph of one node and one message: it begins at the payload and ends at the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.messages.payload import Payload

Outputs = Tensor | tuple[Tensor, ...]


class Computed(NamedTuple):
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def compute(function: Callable[..., Outputs], payload: Payload, training: bool) -> Computed:
    inputs = leaves(payload, training)
    with torch.set_grad_enabled(training):
        outputs = function(*inputs)
    return Computed(inputs, (outputs,) if isinstance(outputs, Tensor) else outputs)


def leaves(payload: Payload, training: bool) -> tuple[Tensor, ...]:
    """Detached tensors, as leaves of a new autograd graph."""
    assert all(tensor is not None for tensor in payload), "a payload of values must not contain None"
    return tuple(
        tensor.detach().requires_grad_(training and tensor.requires_grad)
        for tensor in payload
        if tensor is not None
    )


def detached(outputs: Sequence[Tensor]) -> Payload:
    return tuple(output.detach().requires_grad_(output.requires_grad) for output in outputs)


def local_gradients(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], d_outputs: Payload, weights: Sequence[Tensor]
) -> tuple[Payload, Payload]:
    """With respect to the inputs and to the weights; None for zero."""
    flowing = [
        (output, gradient)
        for output, gradient in zip(outputs, d_outputs, strict=True)
        if gradient is not None and output.requires_grad
    ]
    tops, d_tops = [top for top, _ in flowing], [gradient for _, gradient in flowing]
    wanted = [tensor for tensor in (*inputs, *weights) if tensor.requires_grad]
    if not flowing or not wanted:
        return (None,) * len(inputs), (None,) * len(weights)
    found = iter(torch.autograd.grad(tops, wanted, d_tops, allow_unused=True))
    gradients = tuple(next(found) if tensor.requires_grad else None for tensor in (*inputs, *weights))
    return gradients[: len(inputs)], gradients[len(inputs) :]
