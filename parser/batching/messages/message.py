"""Messages between nodes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class MessageState(NamedTuple):
    """Identifies a message. An output never has two outstanding messages with the same state."""

    instance: int
    position: tuple[int, ...] = ()
    """Counters whose meaning the model defines, such as the step of a loop or a node of a tree."""

    def __str__(self) -> str:
        return f"instance {self.instance}, position {self.position}"

    def at(self, *position: int) -> MessageState:
        return self._replace(position=position)


class Message(NamedTuple):
    """Values in the forward direction, gradients with respect to them (None for zero) in the backward one."""

    payload: tuple[Tensor | None, ...]
    state: MessageState
    training: bool = True
    """Whether a message with gradients and the same state must be returned."""


class Send(NamedTuple):
    """A message that a node sends: forward from one of its outputs, or backward from one of its inputs."""

    forward: bool
    port: int
    message: Message


def onward(message: Message, port: int = 0) -> list[Send]:
    return [Send(True, port, message)]


def back(message: Message, port: int = 0) -> list[Send]:
    return [Send(False, port, message)]
