"""Small graphs, and a check: each message sent comes back once, and each message received is returned."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.messages.asynchronous_updates import BackwardWeights, Parameterised
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Message,
    MessageGraph,
    MessageState,
    Node,
    Send,
    Transform,
    losses_of,
)
from parser.batching.messages.workers import Controller, Entry, Instance

SGD = partial(torch.optim.SGD, lr=0.02)


def two_layers() -> list[nn.Linear]:
    torch.manual_seed(1)
    return [nn.Linear(5, 7).double(), nn.Linear(7, 3).double()]


def layers_in_a_row(
    first: nn.Module, second: nn.Module, update_after: int = 1, backward_weights: BackwardWeights = "forward"
) -> MessageGraph:
    graph = MessageGraph()
    graph.add(CONTROLLER, Controller(outputs=2))
    graph.add("first", Parameterised(first, SGD, update_after, backward_weights), worker=0)
    graph.add("relu", Transform(lambda _, rows: F.relu(rows)), worker=1)
    graph.add("second", Parameterised(second, SGD, update_after, backward_weights), worker=1)
    graph.add("loss", Loss(losses_of))
    graph.chain(CONTROLLER, "first", "relu", "second", "loss", CONTROLLER)
    graph.connect((CONTROLLER, 1), ("loss", 1))
    check_all(graph)
    return graph


def examples(number: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.randn(4, 5, generator=generator).double(), torch.randint(3, (4,), generator=generator))
        for _ in range(number)
    ]


def instances(data: list[tuple[Tensor, Tensor]], training: bool = True) -> list[Instance]:
    return [
        Instance(number, [Entry(0, (rows,)), Entry(1, (labels,))], training=training)
        for number, (rows, labels) in enumerate(data)
    ]


Places = set[tuple[int, MessageState]]
"""Ports, and the states of the messages that passed through them."""


class Checked(Node):
    """Wraps another node. Raises AssertionError for a message that breaks the invariant."""

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
    """Check all nodes except the controller, which itself counts open messages."""
    graph.running.update((name, Checked(node)) for name, node in graph.nodes.items() if name != CONTROLLER)
