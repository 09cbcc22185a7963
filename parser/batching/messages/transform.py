"""A node that applies a function without parameters."""

from __future__ import annotations

from collections.abc import Callable

from parser.batching.messages.local_autograd import Computed, Outputs, compute, detached, local_gradients
from parser.batching.messages.message import Message, MessageState, Send, back, onward
from parser.batching.messages.node import Node


class Transform(Node):
    """Applies a function without parameters to the payload. It may depend on the state."""

    def __init__(self, function: Callable[..., Outputs]):
        """function: takes the state and the tensors of the payload."""
        self._function = function
        self._kept: dict[MessageState, Computed] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = compute(
            lambda *tensors: self._function(message.state, *tensors), message.payload, message.training
        )
        if message.training:
            self._kept[message.state] = Computed(inputs, outputs)
        return onward(message._replace(payload=detached(outputs)))

    def backward(self, port: int, message: Message) -> list[Send]:
        inputs, outputs = self._kept.pop(message.state)
        d_inputs, _ = local_gradients(inputs, outputs, message.payload, ())
        return back(message._replace(payload=d_inputs))

    def held(self) -> int:
        return len(self._kept)
