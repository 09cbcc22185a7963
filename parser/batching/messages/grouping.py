"""Nodes that combine several messages into one, or split one into several (section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from parser.batching.messages.message import (
    Message,
    MessageState,
    Payload,
    Send,
    back,
    concatenate_rows,
    onward,
    split_rows,
)
from parser.batching.messages.node import Node


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
        ordered = [parts[place] for place in range(self.inputs)]
        del self._waiting[state]
        if message.training:
            self._widths[state] = list(map(len, ordered))
        return onward(message.carrying(sum(ordered, ())))

    def backward(self, port: int, message: Message) -> list[Send]:
        widths = self._widths.pop(message.state)
        return [
            Send(False, place, message.carrying(part))
            for place, part in enumerate(_split(message.payload, widths))
        ]

    def outstanding(self) -> int:
        return len(self._waiting) + len(self._widths)


def _split(payload: Payload, widths: Sequence[int]) -> list[Payload]:
    rest = iter(payload)
    return [tuple(islice(rest, width)) for width in widths]


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
    found: dict[MessageState, Payload]


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
        origin, parts, found = self._splits.pop(message.state)
        found[message.state] = message.payload
        if len(found) < len(parts):
            return []
        sizes = [rows for _, rows in parts]
        return back(Message(concatenate_rows([found[state] for state, _ in parts], sizes), origin))

    def outstanding(self) -> int:
        return len(self._splits)


def _rows(payload: Payload) -> int:
    """Return the number of rows. Raises ValueError if the tensors differ in it."""
    counts = {len(tensor) for tensor in payload if tensor is not None}
    if len(counts) != 1:
        raise ValueError(f"all tensors of a message must have the same number of rows, not {sorted(counts)}")
    return counts.pop()
