"""The static graph: nodes, connections between their ports, and the worker of each node."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from parser.batching.messages.node import Node

CONTROLLER = "controller"


class Port(NamedTuple):
    node: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.node}[{self.number}]"


@dataclass
class MessageGraph:
    """A graph of nodes. A port is given as `"node"`, which means its first port, or as `("node", 1)`."""

    nodes: dict[str, Node] = field(default_factory=dict)
    running: dict[str, Node] = field(default_factory=dict)
    """The objects that receive the messages: the nodes, or wrappers of them."""
    worker: dict[str, int] = field(default_factory=dict)
    """The worker of each node, by number."""
    after: dict[Port, Port] = field(default_factory=dict)
    """The input that is connected to each output."""
    before: dict[Port, Port] = field(default_factory=dict)
    """The output that is connected to each input."""

    def add(self, name: str, node: Node, worker: int = 0) -> None:
        """Add a node. Raises ValueError if the name is taken."""
        if name in self.nodes:
            raise ValueError(f"there is a node {name} already")
        self.nodes[name] = self.running[name] = node
        self.worker[name] = worker

    def connect(self, source: str | tuple[str, int], target: str | tuple[str, int]) -> None:
        """Connect an output to an input.

        Raises ValueError if one of them does not exist or is already connected.
        """
        output, given = _port(source), _port(target)
        self._check(output, "output", self.after)
        self._check(given, "input", self.before)
        self.after[output], self.before[given] = given, output

    def chain(self, *nodes: str) -> None:
        """Connect the first output of each node to the first input of the next node."""
        for source, target in pairwise(nodes):
            self.connect(source, target)

    def _check(self, port: Port, kind: str, taken: dict[Port, Port]) -> None:
        if port.node not in self.nodes:
            raise ValueError(f"there is no node {port.node}")
        node = self.nodes[port.node]
        if not 0 <= port.number < (node.outputs if kind == "output" else node.inputs):
            raise ValueError(f"{port.node} has no {kind} {port.number}")
        if port in taken:
            raise ValueError(f"{kind} {port} is connected already, with {taken[port]}")

    def check(self) -> None:
        """Raises ValueError if an input or output is not connected."""
        for name, node in self.nodes.items():
            for kind, number, taken in (
                ("input", node.inputs, self.before),
                ("output", node.outputs, self.after),
            ):
                for place in range(number):
                    if (port := Port(name, place)) not in taken:
                        raise ValueError(f"{kind} {port} is not connected")

    @property
    def workers(self) -> int:
        return 1 + max(self.worker.values(), default=0)

    def outstanding(self) -> dict[str, int]:
        """Return the number of items kept for outstanding messages by each node that keeps any."""
        return {name: held for name, node in self.running.items() if (held := node.outstanding())}


def _port(given: str | tuple[str, int]) -> Port:
    return Port(given) if isinstance(given, str) else Port(*given)
