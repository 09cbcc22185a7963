"""The controller: feeds instances into the graph, and limits how many are in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from parser.batching.messages.message import Message, MessageState, Send
from parser.batching.messages.node import Node


class Entry(NamedTuple):
    """An initial message of an instance."""

    port: int
    """The output of the controller that sends it."""
    payload: tuple[Tensor, ...]
    position: tuple[int, ...] = ()


class Instance(NamedTuple):
    number: int
    """Unique among the instances in flight."""
    entries: Sequence[Entry]
    reports: int = 1
    """The number of reports that loss nodes send about the instance."""
    training: bool = True


class Report(NamedTuple):
    """The report of a loss node about an instance."""

    state: MessageState
    training: bool
    loss: float
    """The loss, summed over the examples."""
    right: int
    examples: int


@dataclass
class _InstanceProgress:
    """The outstanding gradients and reports of an instance."""

    gradients: int
    reports: int
    training: bool


class Controller(Node):
    def __init__(self, outputs: int):
        self.outputs = outputs
        self._pending: Iterator[Instance] = iter(())
        self._open: dict[int, _InstanceProgress] = {}
        self._report: Callable[[Report], object] = lambda _: None

    def start(
        self, instances: Iterable[Instance], max_active: int, report: Callable[[Report], object]
    ) -> list[Send]:
        """Start a run, and return its first messages. Raises ValueError if `max_active` is below 1.

        max_active: the number of instances in flight (max_active_keys).
        """
        if max_active < 1:
            raise ValueError(f"max_active must be at least 1, not {max_active}")
        self._pending, self._report = iter(instances), report
        return [send for _ in range(max_active) for send in self._next()]

    @property
    def finished(self) -> bool:
        return not self._open

    def forward(self, port: int, message: Message) -> list[Send]:
        """Handle the report of a loss."""
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

    def outstanding(self) -> int:
        return len(self._open)

    def _after(self, instance: int) -> list[Send]:
        progress = self._open[instance]
        if progress.gradients or progress.reports:
            return []
        del self._open[instance]
        return self._next()

    def _next(self) -> list[Send]:
        instance = next(self._pending, None)
        if instance is None:
            return []
        number, entries, reports, training = instance
        if number in self._open:
            raise ValueError(f"instance {number} is in flight already")
        if not entries or reports < 1:
            raise ValueError(f"instance {number} needs at least one entry and one report")
        self._open[number] = _InstanceProgress(len(entries) if training else 0, reports, training)
        return [
            Send(True, port, Message(payload, MessageState(number, position), training))
            for port, payload, position in entries
        ]
