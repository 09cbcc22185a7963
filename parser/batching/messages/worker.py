"""A worker runs its nodes: one message after the other, gradients before anything else (section 5)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias

import torch

from parser.batching.messages.controller import Controller, Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph, Port
from parser.batching.messages.message import Message, Send


class Delivery(NamedTuple):
    forward: bool
    to: Port
    message: Message


class Stop(NamedTuple):
    """The last thing that a worker gets."""


class Span(NamedTuple):
    """When a message was worked on."""

    worker: int
    node: str
    instance: int
    forward: bool
    began: float
    """As `time.perf_counter` says."""
    ended: float
    waiting: int
    """Messages for this worker, those not counted that others have just sent."""


Mailbox: TypeAlias = SimpleQueue[Delivery | Stop]


class Worker:
    def __init__(
        self,
        number: int,
        graph: MessageGraph,
        mailbox: Mailbox,
        post: Callable[[int, Delivery], object],
        stop: Callable[[BaseException | None], object],
        trace: Callable[[Span], object] | None = None,
        count: Callable[[int], object] = lambda _: None,
    ):
        """post: sends to another worker; stop: sends `Stop` to all, this one too, for an error if any;
        trace: is told of everything that is done; count: of how many messages more there are.
        """
        self._number, self._graph, self._mailbox = number, graph, mailbox
        self._post, self._stop, self._trace, self._count = post, stop, trace, count
        self._gradients: deque[Delivery] = deque()
        self._values: deque[Delivery] = deque()
        self.busy = 0.0
        """Seconds of this thread on a processor: not those in which it waits for the interpreter."""

    def begin(
        self, instances: Iterable[Instance], max_active: int, report: Callable[[Report], object]
    ) -> None:
        """To be called on the controller's worker, before it runs; see `Controller.start`.

        Raises ValueError for a graph that a run before has left in the middle.
        """
        if held := self._graph.held():
            raise ValueError(f"a run before has failed: build the graph anew; these nodes still wait: {held}")
        sends = self._controller.start(instances, max_active, report)
        self._count(len(sends))
        self._send(CONTROLLER, sends)
        self._end_if_finished(CONTROLLER)

    def run(self) -> None:
        """Until it is told to stop. A node's error stops all workers."""
        torch.set_num_threads(1)
        try:
            with torch.no_grad():
                while self._receive():
                    self._work((self._gradients or self._values).popleft())
        except BaseException as error:
            self._stop(error)

    def _receive(self) -> bool:
        """Take in all that has come, and wait if there is nothing to do; whether to go on."""
        while True:
            try:
                item = self._mailbox.get(block=not (self._gradients or self._values))
            except Empty:
                return True
            if isinstance(item, Stop):
                return False
            self._keep(item)

    def _work(self, delivery: Delivery) -> None:
        forward, to, message = delivery
        node = self._graph.running[to.node]
        began, busy_before = time.perf_counter(), time.thread_time()
        try:
            sends = (node.forward if forward else node.backward)(to.number, message)
            if len(sends) != 1:
                self._count(len(sends) - 1)  # before others can have worked on them
            self._send(to.node, sends)
        except LostError:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise NodeError(f"{to.node}, worker {self._number}, {message.state}: {what}") from error
        self._end_if_finished(to.node)
        ended = time.perf_counter()
        self.busy += time.thread_time() - busy_before
        if self._trace:
            waiting = len(self._gradients) + len(self._values)
            self._trace(Span(self._number, to.node, message.state.instance, forward, began, ended, waiting))

    def _send(self, node: str, sends: list[Send]) -> None:
        graph = self._graph
        for forward, port, message in sends:
            to = (graph.after if forward else graph.before)[Port(node, port)]
            delivery = Delivery(forward, to, message)
            if (worker := graph.worker[to.node]) == self._number:
                self._keep(delivery)
            else:
                self._post(worker, delivery)

    def _keep(self, delivery: Delivery) -> None:
        (self._values if delivery.forward else self._gradients).append(delivery)

    def _end_if_finished(self, node: str) -> None:
        if node == CONTROLLER and self._controller.finished:
            self._stop(None)

    @property
    def _controller(self) -> Controller:
        controller = self._graph.nodes[CONTROLLER]
        assert isinstance(controller, Controller)
        return controller


class NodeError(RuntimeError):
    """What a node raised, with its name."""


class LostError(RuntimeError):
    """Another process has failed, or is there no more."""
