"""Nodes that depend on states only: conditions, joins, state changes (section 4); loops built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parser.batching.messages.message import Message, MessageState, Payload, PayloadSum, Send, back, onward
from parser.batching.messages.message_graph import MessageGraph
from parser.batching.messages.node import Node


class Condition(Node):
    """Sends each message to the output that its state selects (the paper's Cond)."""

    immediate = True

    def __init__(self, choose: Callable[[MessageState], int], outputs: int = 2):
        self._choose, self.outputs = choose, outputs

    def forward(self, port: int, message: Message) -> list[Send]:
        return onward(message, self._choose(message.state))

    def backward(self, port: int, message: Message) -> list[Send]:
        return back(message)


class Join(Node):
    """Merges its inputs, and returns gradients to the input that a message came from (Phi)."""

    immediate = True

    def __init__(self, inputs: int = 2):
        self.inputs = inputs
        self._origin: dict[MessageState, int] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        if message.training:
            self._origin[message.state] = port
        return onward(message)

    def backward(self, port: int, message: Message) -> list[Send]:
        return back(message, self._origin.pop(message.state))

    def outstanding(self) -> int:
        return len(self._origin)


class ChangeState(Node):
    """Changes the state by an invertible function (Isu)."""

    immediate = True

    def __init__(
        self, change: Callable[[MessageState], MessageState], undo: Callable[[MessageState], MessageState]
    ):
        self._change, self._undo = change, undo

    def forward(self, port: int, message: Message) -> list[Send]:
        return onward(message.to(self._change(message.state)))

    def backward(self, port: int, message: Message) -> list[Send]:
        return back(message.to(self._undo(message.state)))


class Broadcast(Node):
    """Broadcasts a message to all outputs, and sums their gradients (Bcast)."""

    immediate = True

    def __init__(self, outputs: int):
        self.outputs = outputs
        self._sums: dict[MessageState, PayloadSum] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        return [Send(True, output, message) for output in range(self.outputs)]

    def backward(self, port: int, message: Message) -> list[Send]:
        total = self._sums.setdefault(message.state, PayloadSum(self.outputs))
        if not total.add(message.payload):
            return []
        return back(message.carrying(self._sums.pop(message.state).payload))

    def outstanding(self) -> int:
        return len(self._sums)


class Discard(Node):
    """Discards messages, and answers them without gradients."""

    outputs = 0
    immediate = True

    def forward(self, port: int, message: Message) -> list[Send]:
        nothing: Payload = (None,) * len(message.payload)
        return back(message.carrying(nothing)) if message.training else []

    def backward(self, port: int, message: Message) -> list[Send]:
        raise AssertionError("a node without outputs gets no gradients")


class FlatMap(Node):
    """Sends the payload once with each of several states, and sums their gradients."""

    immediate = True

    def __init__(self, states: Callable[[MessageState], Sequence[MessageState]]):
        """states: maps a state to at least one state; states of different messages must differ."""
        self._states = states
        self._origin: dict[MessageState, MessageState] = {}
        self._sums: dict[MessageState, PayloadSum] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        states = self._states(message.state)
        if not states:
            raise ValueError(f"{message.state}: mapped to no states")
        if message.training:
            self._origin.update(dict.fromkeys(states, message.state))
            self._sums[message.state] = PayloadSum(len(states))
        return [Send(True, 0, message.to(state)) for state in states]

    def backward(self, port: int, message: Message) -> list[Send]:
        origin = self._origin.pop(message.state)
        if not self._sums[origin].add(message.payload):
            return []
        return back(Message(self._sums.pop(origin).payload, origin))

    def outstanding(self) -> int:
        return len(self._origin) + len(self._sums)


def each_step(state: MessageState) -> Sequence[MessageState]:
    """Return the states of all steps, for a state with the position (steps,)."""
    (steps,) = state.position
    return [state.at(step, steps) for step in range(steps)]


def add_loop(graph: MessageGraph, before: str, first: str, last: str, worker: int = 0) -> tuple[str, int]:
    """Add a loop from `before` through `first` to `last`. The loop's own nodes run on `worker`.

    Returns the output that is taken after all steps.
    """
    graph.add("again", Join(), worker)
    graph.add("count", ChangeState(_next_step, _step_before), worker)
    graph.add("all steps", Condition(lambda state: int(state.position[0] == state.position[1])), worker)
    graph.chain(before, "again", first)
    graph.chain(last, "count", "all steps")
    graph.connect("all steps", ("again", 1))
    return "all steps", 1


def _next_step(state: MessageState) -> MessageState:
    step, *others = state.position
    return state.at(step + 1, *others)


def _step_before(state: MessageState) -> MessageState:
    step, *others = state.position
    return state.at(step - 1, *others)
