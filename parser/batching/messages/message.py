"""What nodes exchange."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class MessageState(NamedTuple):
    """Whom a message is about. No output sends another one with it until the first has come back."""

    instance: int
    position: tuple[int, ...] = ()
    """Counters, to which a model gives their meaning: the step of a loop, a node of a tree."""

    def at(self, *position: int) -> MessageState:
        return self._replace(position=position)


class Message(NamedTuple):
    """Forward some values; backward the gradients at the same, None where nothing flows."""

    payload: tuple[Tensor | None, ...]
    state: MessageState
    training: bool = True
    """Whether a message with gradients and the same state will come back."""


class Send(NamedTuple):
    """A message that a node sends: forward from one of its outputs, or backward from one of its inputs."""

    forward: bool
    port: int
    message: Message


def onward(message: Message, port: int = 0) -> list[Send]:
    return [Send(True, port, message)]


def back(message: Message, port: int = 0) -> list[Send]:
    return [Send(False, port, message)]
