"""The node that computes the loss and starts the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.messages.local_autograd import leaves, local_gradients
from parser.batching.messages.message import Message, MessageState, Send, back, onward
from parser.batching.messages.node import Node
from parser.batching.messages.payload import Payload


class Losses(NamedTuple):
    loss: Tensor
    """Scalar, summed over the examples."""
    right: int
    examples: int


def losses_of(scores: Tensor, labels: Tensor) -> Losses:
    """scores: [examples, classes]; labels: [examples]"""
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
        inputs = leaves(predicted.payload, message.training)
        with torch.set_grad_enabled(message.training):
            loss, right, examples = self._loss(*inputs, *expected.payload)
        report = torch.tensor([loss.item(), right, examples], dtype=torch.float64)
        sends = onward(Message((report,), message.state, training=False))
        if message.training:
            d_inputs, _ = local_gradients(inputs, (loss,), (torch.ones_like(loss),), ())
            nothing: Payload = (None,) * len(expected.payload)
            sends += back(predicted._replace(payload=d_inputs), 0) + back(
                expected._replace(payload=nothing), 1
            )
        return sends

    def backward(self, port: int, message: Message) -> list[Send]:
        raise AssertionError("reports are not answered")

    def held(self) -> int:
        return len(self._waiting)
