"""Which nodes there are, what goes from where to where, and who runs them."""

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
    """Ports are named `node`, for the first one, or given as `("node", 1)`."""

    nodes: dict[str, Node] = field(default_factory=dict)
    running: dict[str, Node] = field(default_factory=dict)
    """What gets the messages: the nodes, or what stands before them."""
    worker: dict[str, int] = field(default_factory=dict)
    """Of each node, by its number."""
    after: dict[Port, Port] = field(default_factory=dict)
    """Of each output, the input that it goes to."""
    before: dict[Port, Port] = field(default_factory=dict)

    def add(self, name: str, node: Node, worker: int = 0) -> None:
        """Raises ValueError for a name that is there already."""
        if name in self.nodes:
            raise ValueError(f"there is a node {name} already")
        self.nodes[name] = self.running[name] = node
        self.worker[name] = worker

    def connect(self, source: str | tuple[str, int], target: str | tuple[str, int]) -> None:
        """An output with an input. Raises ValueError for one that is not there, or is connected already."""
        output, given = _port(source), _port(target)
        self._check(output, "output", self.after)
        self._check(given, "input", self.before)
        self.after[output], self.before[given] = given, output

    def chain(self, *nodes: str) -> None:
        """The first output of each with the first input of the next."""
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
        """Raises ValueError for an input or output that nothing is connected with."""
        for name, node in self.nodes.items():
            for kind, number, taken in (
                ("input", node.inputs, self.before),
                ("output", node.outputs, self.after),
            ):
                for place in range(number):
                    if (port := Port(name, place)) not in taken:
                        raise ValueError(f"nothing is connected with {kind} {port}")

    @property
    def workers(self) -> int:
        return 1 + max(self.worker.values(), default=0)

    def held(self) -> dict[str, int]:
        """Of each node that keeps something for messages that have not come, how many things."""
        return {name: held for name, node in self.running.items() if (held := node.held())}


def _port(given: str | tuple[str, int]) -> Port:
    return Port(given) if isinstance(given, str) else Port(*given)
