"""What goes into the graph: instances, of which so many are on their way at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from parser.batching.messages.message import Message, MessageState, Send
from parser.batching.messages.node import Node


class Entry(NamedTuple):
    """A message to begin with."""

    port: int
    """Of the controller's outputs."""
    payload: tuple[Tensor, ...]
    position: tuple[int, ...] = ()


class Instance(NamedTuple):
    number: int
    """Which no other has that is on its way at the same time."""
    entries: Sequence[Entry]
    reports: int = 1
    """How often a loss will report."""
    training: bool = True


class Report(NamedTuple):
    """What a loss says of an instance."""

    state: MessageState
    training: bool
    loss: float
    """The sum over its examples."""
    right: int
    examples: int


@dataclass
class _InstanceProgress:
    """What has not come back of an instance."""

    gradients: int
    reports: int
    training: bool


class Controller(Node):
    def __init__(self, outputs: int):
        self.outputs = outputs
        self._waiting: Iterator[Instance] = iter(())
        self._open: dict[int, _InstanceProgress] = {}
        self._report: Callable[[Report], object] = lambda _: None

    def start(
        self, instances: Iterable[Instance], max_active: int, report: Callable[[Report], object]
    ) -> list[Send]:
        """max_active: how many are on their way at a time (max_active_keys). Raises ValueError for none."""
        if max_active < 1:
            raise ValueError(f"{max_active} instances on their way at a time are too few")
        self._waiting, self._report = iter(instances), report
        return [send for _ in range(max_active) for send in self._next()]

    @property
    def finished(self) -> bool:
        return not self._open

    def forward(self, port: int, message: Message) -> list[Send]:
        """A loss's report."""
        instance = message.state.instance
        (report,) = message.payload
        assert report is not None
        loss, right, examples = report.tolist()
        progress = self._open[instance]
        self._report(Report(message.state, progress.training, loss, int(right), int(examples)))
        progress.reports -= 1
        return self._after(instance)

    def backward(self, port: int, message: Message) -> list[Send]:
        instance = message.state.instance
        self._open[instance].gradients -= 1
        return self._after(instance)

    def held(self) -> int:
        return len(self._open)

    def _after(self, instance: int) -> list[Send]:
        progress = self._open[instance]
        if progress.gradients or progress.reports:
            return []
        del self._open[instance]
        return self._next()

    def _next(self) -> list[Send]:
        instance = next(self._waiting, None)
        if instance is None:
            return []
        number, entries, reports, training = instance
        if number in self._open:
            raise ValueError(f"instance {number} is on its way already")
        if not entries or reports < 1:
            raise ValueError(f"instance {number} must begin with something, and end with a report")
        self._open[number] = _InstanceProgress(len(entries) if training else 0, reports, training)
        return [
            Send(True, port, Message(payload, MessageState(number, position), training))
            for port, payload, position in entries
        ]
