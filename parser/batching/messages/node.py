"""The interface of nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from parser.batching.messages.message import Message, Send


class Node(ABC):
    """Handles one message at a time.

    Every training message that it sends forward is answered exactly once by gradients with the same state.
    The node then answers the message that it was sent. No other thread accesses its state, so it needs no
    locks.
    """

    inputs = 1
    outputs = 1

    @abstractmethod
    def forward(self, port: int, message: Message) -> list[Send]:
        """Handle a message at an input."""

    @abstractmethod
    def backward(self, port: int, message: Message) -> list[Send]:
        """Handle gradients at an output."""

    def held(self) -> int:
        """The number of items kept for outstanding messages; 0 after a complete run."""
        return 0
