"""What a node of the graph is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from parser.batching.messages.message import Message, Send


class Node(ABC):
    """Reacts to one message at a time.

    Every training message that it sends forward comes back exactly once, with the same state; then it, too,
    sends back what it was sent. What it keeps until then is its own, so it needs no locks.
    """

    inputs = 1
    outputs = 1

    @abstractmethod
    def forward(self, port: int, message: Message) -> list[Send]:
        """A message at an input."""

    @abstractmethod
    def backward(self, port: int, message: Message) -> list[Send]:
        """Gradients at an output."""

    def held(self) -> int:
        """How many things are kept for messages that have not come yet: 0 when a run has ended."""
        return 0
