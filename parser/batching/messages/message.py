"""Messages between nodes: their states and their payloads.

A payload is a tuple of tensors, or of gradients with respect to them. `requires_grad` marks tensors whose
gradients are needed, although they are detached from any autograd graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


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


Payload = tuple[Tensor | None, ...]


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
    return tuple(_concatenated(parts, sizes) for parts in zip(*payloads, strict=True))


def _concatenated(parts: Sequence[Tensor | None], sizes: Sequence[int]) -> Tensor | None:
    present = [part for part in parts if part is not None]
    if not present:
        return None
    filled = [
        present[0].new_zeros(size, *present[0].shape[1:]) if part is None else part
        for part, size in zip(parts, sizes, strict=True)
    ]
    with torch.no_grad():
        return torch.cat(filled).requires_grad_(any(part.requires_grad for part in present))


def split_rows(payload: Payload, sizes: Sequence[int]) -> list[Payload]:
    """The inverse of `concatenate_rows`. sizes: the number of rows of each part."""
    return list(zip(*(_split_tensor(whole, list(sizes)) for whole in payload), strict=True))


def _split_tensor(whole: Tensor | None, sizes: list[int]) -> Sequence[Tensor | None]:
    if whole is None:
        return [None] * len(sizes)
    return [part.detach().requires_grad_(whole.requires_grad) for part in whole.detach().split(sizes)]
