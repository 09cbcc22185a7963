"""The static graph: nodes, connections between their ports, and the messages that nodes send to each other.

A payload is a tuple of tensors, or of gradients with respect to them. `requires_grad` marks tensors whose
gradients are needed, although they are detached from any autograd graph: the autograd graph of one node and
one message reaches from the payload to the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

Payload = tuple[Tensor | None, ...]


class MessageState(NamedTuple):
    """Identifies a message. An output never has two outstanding messages with the same state."""

    instance: int
    position: tuple[int, ...] = ()
    """Counters whose meaning the model defines, such as the step of a loop or a node of a tree."""

    def __str__(self) -> str:
        return f"instance {self.instance}, position {self.position}"

    def at(self, *position: int) -> MessageState:
        return MessageState(self.instance, position)


class Message(NamedTuple):
    """Values in the forward direction, gradients with respect to them (None for zero) in the backward one."""

    payload: tuple[Tensor | None, ...]
    state: MessageState
    training: bool = True
    """Whether a message with gradients and the same state must be returned."""

    def carrying(self, payload: tuple[Tensor | None, ...]) -> Message:
        return Message(payload, self.state, self.training)

    def to(self, state: MessageState) -> Message:
        return Message(self.payload, state, self.training)


class Send(NamedTuple):
    """A message that a node sends: forward from one of its outputs, or backward from one of its inputs."""

    forward: bool
    port: int
    message: Message


def onward(message: Message, port: int = 0) -> list[Send]:
    return [Send(True, port, message)]


def back(message: Message, port: int = 0) -> list[Send]:
    return [Send(False, port, message)]


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


CONTROLLER = "controller"


class Port(NamedTuple):
    node: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.node}[{self.number}]"


@dataclass
class MessageGraph:
    """A graph of nodes. A port is given as `"node"`, which means its first port, or as `("node", 1)`.

    >>> graph = MessageGraph()
    >>> graph.add(CONTROLLER, Controller(outputs=2))
    >>> graph.add("halve", Transform(lambda state, rows: rows / 2), worker=1)
    >>> graph.add("loss", Loss(losses_of))
    >>> graph.chain(CONTROLLER, "halve", "loss", CONTROLLER)
    >>> graph.connect((CONTROLLER, 1), ("loss", 1))
    >>> graph.check()
    >>> graph.workers
    2
    """

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
                for port_number in range(number):
                    if (port := Port(name, port_number)) not in taken:
                        raise ValueError(f"{kind} {port} is not connected")

    @property
    def workers(self) -> int:
        return 1 + max(self.worker.values(), default=0)

    def outstanding(self) -> dict[str, int]:
        """Return the number of items kept for outstanding messages by each node that keeps any."""
        return {name: held for name, node in self.running.items() if (held := node.outstanding())}


def _port(given: str | tuple[str, int]) -> Port:
    return Port(given) if isinstance(given, str) else Port(*given)


class PayloadSum:
    """The sum of an expected number of payloads."""

    def __init__(self, expected: int):
        self._missing = expected
        self.payload: Payload = ()

    def add(self, payload: Payload) -> bool:
        """Add a payload. Returns whether the sum is complete."""
        self.payload = payload_sum(self.payload, payload) if self.payload else payload
        self._missing -= 1
        return not self._missing


def payload_sum(left: Payload, right: Payload) -> Payload:
    return tuple(
        other if one is None else one if other is None else one + other
        for one, other in zip(left, right, strict=True)
    )


def concatenate_rows(payloads: Sequence[Payload], sizes: Sequence[int]) -> Payload:
    """Concatenate the rows of each tensor. sizes: the number of rows of each payload.

    None counts as zeros, unless it is None in all payloads.
    """
    wholes: list[Tensor | None] = []
    for parts in zip(*payloads, strict=True):
        present = [part for part in parts if part is not None]
        if not present:
            wholes.append(None)
            continue
        filled = [
            present[0].new_zeros(size, *present[0].shape[1:]) if part is None else part
            for part, size in zip(parts, sizes, strict=True)
        ]
        with torch.no_grad():
            wholes.append(torch.cat(filled).requires_grad_(any(part.requires_grad for part in present)))
    return tuple(wholes)


def split_rows(payload: Payload, sizes: Sequence[int]) -> list[Payload]:
    """The inverse of `concatenate_rows`. sizes: the number of rows of each part."""
    columns: list[Sequence[Tensor | None]] = []
    for whole in payload:
        if whole is None:
            columns.append([None] * len(sizes))
        else:
            parts = whole.detach().split(list(sizes))
            columns.append([part.detach().requires_grad_(whole.requires_grad) for part in parts])
    return list(zip(*columns, strict=True))


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
    tensors = tuple(tensor for tensor in payload if tensor is not None)
    assert len(tensors) == len(payload), "a payload of values must not contain None"
    return tuple(tensor if tensor.is_leaf else tensor.detach().requires_grad_() for tensor in tensors)


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
    wanted_gradients = iter(torch.autograd.grad(tops, wanted, d_tops, allow_unused=True))
    gradients = tuple(
        next(wanted_gradients) if tensor.requires_grad else None for tensor in (*inputs, *weights)
    )
    return gradients[: len(inputs)], gradients[len(inputs) :]


class Transform(Node):
    """Applies a function without parameters to the payload. The function can depend on the state.

    >>> relu = Transform(lambda state, rows: rows.relu())
    >>> relu.inputs, relu.outputs
    (1, 1)
    """

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
    """What a loss node computes.

    >>> Losses(torch.tensor(1.5), right=3, examples=4).right
    3
    """

    loss: Tensor
    """The loss, a scalar, summed over the examples."""
    right: int
    examples: int


def losses_of(scores: Tensor, labels: Tensor) -> Losses:
    """Return the losses of a classifier. scores: [examples, classes]; labels: [examples].

    >>> losses_of(torch.eye(3), torch.tensor([0, 1, 0])).right
    2
    """
    right = int((scores.argmax(1) == labels).sum())
    return Losses(nn.functional.cross_entropy(scores, labels, reduction="sum"), right, len(labels))


class Loss(Node):
    """Compares predictions (input 0) with targets (input 1), and sends the gradients back.

    Its output reports the loss, the number of correct examples, and the number of examples.

    >>> Loss(losses_of).inputs
    2
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
