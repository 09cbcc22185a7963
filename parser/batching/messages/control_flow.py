"""Nodes that depend on states only: conditions, joins, state changes, and loops built from them; and nodes
that combine several messages into one, or split one into several (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from parser.batching.messages.message_graph import (
    Message,
    MessageGraph,
    MessageState,
    Node,
    Payload,
    PayloadSum,
    Send,
    back,
    concatenate_rows,
    onward,
    split_rows,
)


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

    def moved(state: MessageState, steps: int) -> MessageState:
        step, *others = state.position
        return state.at(step + steps, *others)

    count = ChangeState(lambda state: moved(state, 1), lambda state: moved(state, -1))
    graph.add("again", Join(), worker)
    graph.add("count", count, worker)
    graph.add("all steps", Condition(lambda state: int(state.position[0] == state.position[1])), worker)
    graph.chain(before, "again", first)
    graph.chain(last, "count", "all steps")
    graph.connect("all steps", ("again", 1))
    return "all steps", 1


class ConcatenatePayloads(Node):
    """Combines messages with the same state, one from each input, by concatenating their payload tuples."""

    immediate = True

    def __init__(self, inputs: int = 2):
        self.inputs = inputs
        self._waiting: dict[MessageState, dict[int, Payload]] = {}
        self._widths: dict[MessageState, list[int]] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        state = message.state
        parts = self._waiting.setdefault(state, {})
        parts[port] = message.payload
        if len(parts) < self.inputs:
            return []
        ordered = [parts[number] for number in range(self.inputs)]
        del self._waiting[state]
        if message.training:
            self._widths[state] = list(map(len, ordered))
        return onward(message.carrying(sum(ordered, ())))

    def backward(self, port: int, message: Message) -> list[Send]:
        rest = iter(message.payload)
        return [
            Send(False, number, message.carrying(tuple(islice(rest, width))))
            for number, width in enumerate(self._widths.pop(message.state))
        ]

    def outstanding(self) -> int:
        return len(self._waiting) + len(self._widths)


class Group(Node):
    """Combines all messages of a group: their rows are concatenated in the order of their states."""

    def __init__(
        self,
        group: Callable[[MessageState], MessageState],
        size: Callable[[MessageState], int],
        joined: Callable[[MessageState, Sequence[MessageState]], MessageState] = lambda group, _: group,
    ):
        """group: maps the state of a member to the state of its group; size: returns the number of members of
        a group; joined: returns the state of the combined message, from the group and its members in order.
        """
        self._group, self._size, self._joined = group, size, joined
        self._waiting: dict[MessageState, dict[MessageState, Payload]] = {}
        self._members: dict[MessageState, list[tuple[MessageState, int]]] = {}

    def forward(self, port: int, message: Message) -> list[Send]:
        group = self._group(message.state)
        members = self._waiting.setdefault(group, {})
        _rows(message.payload)
        members[message.state] = message.payload
        if len(members) < self._size(group):
            return []
        ordered = sorted(self._waiting.pop(group).items(), key=lambda member: member[0])
        states = [state for state, _ in ordered]
        sizes = [_rows(payload) for _, payload in ordered]
        joined = self._joined(group, states)
        if message.training:
            self._members[joined] = list(zip(states, sizes, strict=True))
        payload = concatenate_rows([payload for _, payload in ordered], sizes)
        return onward(Message(payload, joined, message.training))

    def backward(self, port: int, message: Message) -> list[Send]:
        members = self._members.pop(message.state)
        parts = split_rows(message.payload, [rows for _, rows in members])
        return [Send(False, 0, Message(part, state)) for (state, _), part in zip(members, parts, strict=True)]

    def outstanding(self) -> int:
        return len(self._waiting) + len(self._members)


class _Split(NamedTuple):
    """A message that was split, and the gradients of its parts so far."""

    origin: MessageState
    parts: Sequence[tuple[MessageState, int]]
    gradients: dict[MessageState, Payload]


class Ungroup(Node):
    """Splits the rows of a message into several messages."""

    def __init__(self, parts: Callable[[MessageState], Sequence[tuple[MessageState, int]]]):
        """parts: maps a state to the states and numbers of rows of the parts, in the order of the rows."""
        self._parts = parts
        self._splits: dict[MessageState, _Split] = {}
        """The split messages, by the state of each part whose gradient is missing."""

    def forward(self, port: int, message: Message) -> list[Send]:
        parts = self._parts(message.state)
        if not parts:
            raise ValueError(f"{message.state}: ungrouped into no parts")
        if message.training:
            split = _Split(message.state, parts, {})
            self._splits.update((state, split) for state, _ in parts)
        payloads = split_rows(message.payload, [rows for _, rows in parts])
        return [
            Send(True, 0, Message(payload, state, message.training))
            for (state, _), payload in zip(parts, payloads, strict=True)
        ]

    def backward(self, port: int, message: Message) -> list[Send]:
        origin, parts, gradients = self._splits.pop(message.state)
        gradients[message.state] = message.payload
        if len(gradients) < len(parts):
            return []
        sizes = [rows for _, rows in parts]
        return back(Message(concatenate_rows([gradients[state] for state, _ in parts], sizes), origin))

    def outstanding(self) -> int:
        return len(self._splits)


def _rows(payload: Payload) -> int:
    """Return the number of rows. Raises ValueError if the tensors differ in it."""
    counts = {len(tensor) for tensor in payload if tensor is not None}
    if len(counts) != 1:
        raise ValueError(f"all tensors of a message must have the same number of rows, not {sorted(counts)}")
    return counts.pop()
