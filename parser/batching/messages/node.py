"""Nodes: their interface, and the nodes without parameters, transforms and the loss.

The autograd graph of one node and one message reaches from the payload to the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.messages.message import Message, MessageState, Payload, Send, back, onward


class Node(ABC):
    """Handles one message at a time.

    Every training message that it sends forward is answered exactly once by gradients with the same state.
    The node then answers the message that it received. No other thread accesses the node's attributes, so it
    needs no locks.
    """

    inputs = 1
    outputs = 1
    immediate = False
    """Whether handling a message takes hardly any time. A worker then handles its own messages at once."""

    @abstractmethod
    def forward(self, port: int, message: Message) -> list[Send]:
        """Handle a message at an input."""

    @abstractmethod
    def backward(self, port: int, message: Message) -> list[Send]:
        """Handle gradients at an output."""

    def outstanding(self) -> int:
        """Return the number of items kept for outstanding messages; 0 after a complete run."""
        return 0


ModuleOutputs = Tensor | tuple[Tensor, ...]


class Computed(NamedTuple):
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def compute(function: Callable[..., ModuleOutputs], payload: Payload, training: bool) -> Computed:
    inputs = leaves(payload)
    with torch.set_grad_enabled(training):
        outputs = function(*inputs)
    return Computed(inputs, (outputs,) if isinstance(outputs, Tensor) else outputs)


def leaves(payload: Payload) -> tuple[Tensor, ...]:
    """Return the tensors of a payload, each detached if it is part of an autograd graph."""
    found = tuple(tensor for tensor in payload if tensor is not None)
    assert len(found) == len(payload), "a payload of values must not contain None"
    return tuple(tensor if tensor.is_leaf else tensor.detach().requires_grad_() for tensor in found)


def detached(outputs: Sequence[Tensor]) -> Payload:
    return tuple(output.detach().requires_grad_(output.requires_grad) for output in outputs)


def local_gradients(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], d_outputs: Payload, weights: Sequence[Tensor]
) -> tuple[Payload, Payload]:
    """Return the gradients with respect to the inputs and to the weights; None for zero."""
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


class Transform(Node):
    """Applies a function without parameters to the payload. The function can depend on the state."""

    def __init__(self, function: Callable[..., ModuleOutputs]):
        """function: takes the state and the tensors of the payload."""
        self._function = function
        self._kept: dict[MessageState, Computed] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = compute(
            lambda *tensors: self._function(message.state, *tensors), message.payload, message.training
        )
        if message.training:
            self._kept[message.state] = Computed(inputs, outputs)
        return onward(message.carrying(detached(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = self._kept.pop(message.state)
        d_inputs, _ = local_gradients(inputs, outputs, message.payload, ())
        return back(message.carrying(d_inputs))

    def outstanding(self) -> int:
        return len(self._kept)


class Losses(NamedTuple):
    loss: Tensor
    """The loss, a scalar, summed over the examples."""
    right: int
    examples: int


def losses_of(scores: Tensor, labels: Tensor) -> Losses:
    """Return the losses of a classifier. scores: [examples, classes]; labels: [examples]."""
    right = int((scores.argmax(1) == labels).sum())
    return Losses(nn.functional.cross_entropy(scores, labels, reduction="sum"), right, len(labels))


class Loss(Node):
    """Compares predictions (input 0) with targets (input 1), and sends the gradients back.

    Its output reports the loss, the number of correct examples, and the number of examples.
    """

    inputs = 2

    def __init__(self, loss: Callable[..., Losses]):
        """loss: takes the tensors of both payloads."""
        self._loss = loss
        self._waiting: dict[MessageState, Message] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        other = self._waiting.pop(message.state, None)
        if other is None:
            self._waiting[message.state] = message
            return []
        predicted, expected = (message, other) if port == 0 else (other, message)
        inputs = leaves(predicted.payload)
        with torch.set_grad_enabled(message.training):
            loss, right, examples = self._loss(*inputs, *expected.payload)
        report = torch.tensor([loss.item(), right, examples], dtype=torch.float64)
        sends = onward(Message((report,), message.state, training=False))
        if message.training:
            d_inputs, _ = local_gradients(inputs, (loss,), (torch.ones_like(loss),), ())
            nothing: Payload = (None,) * len(expected.payload)
            sends += back(predicted.carrying(d_inputs), 0) + back(expected.carrying(nothing), 1)
        return sends

    def backward(self, port: int, message: Message) -> list[Send]:
        raise AssertionError("reports are not answered")

    def outstanding(self) -> int:
        return len(self._waiting)
