"""A check that nothing is lost: what is sent forward comes back, once, and what has come goes back."""

from __future__ import annotations

from parser.batching.messages.message import Message, MessageState, Send
from parser.batching.messages.message_graph import CONTROLLER, MessageGraph
from parser.batching.messages.node import Node

Places = set[tuple[int, MessageState]]
"""Ports, and the states of what went through."""


class Checked(Node):
    """Another node. Raises AssertionError for a message that breaks the invariant."""

    def __init__(self, node: Node):
        self.node, self.inputs, self.outputs = node, node.inputs, node.outputs
        self._sent: Places = set()
        self._received: Places = set()

    def forward(self, port: int, message: Message) -> list[Send]:
        if message.training:
            _begin(self._received, (port, message.state), "was sent here twice")
        return self._checked(self.node.forward(port, message))

    def backward(self, port: int, message: Message) -> list[Send]:
        _end(self._sent, (port, message.state), "comes back, but was not sent")
        return self._checked(self.node.backward(port, message))

    def outstanding(self) -> int:
        return self.node.outstanding() + len(self._sent) + len(self._received)

    def _checked(self, sends: list[Send]) -> list[Send]:
        for forward, port, message in sends:
            if not forward:
                _end(self._received, (port, message.state), "is sent back, but did not come")
            elif message.training:
                _begin(self._sent, (port, message.state), "is sent twice")
        return sends


def _begin(places: Places, place: tuple[int, MessageState], wrong: str) -> None:
    assert place not in places, f"{place} {wrong}"
    places.add(place)


def _end(places: Places, place: tuple[int, MessageState], wrong: str) -> None:
    assert place in places, f"{place} {wrong}"
    places.remove(place)


def check_all(graph: MessageGraph) -> None:
    """Of all nodes but the controller, which counts what is open itself."""
    graph.running.update((name, Checked(node)) for name, node in graph.nodes.items() if name != CONTROLLER)
