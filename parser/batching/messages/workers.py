"""The controller, which feeds instances into the graph and limits how many are in flight, and the workers.

Each worker runs its nodes, one message at a time. Backward messages have priority (section 5).

`run` uses one thread for each worker, `processes.py` one process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from parser.batching.messages.message_graph import (
    CONTROLLER,
    Message,
    MessageGraph,
    MessageState,
    Node,
    Port,
    Send,
)


class Entry(NamedTuple):
    """An initial message of an instance.

    >>> Entry(port=1, payload=(torch.tensor([2]),)).position
    ()
    """

    port: int
    """The output of the controller that sends it."""
    payload: tuple[Tensor, ...]
    position: tuple[int, ...] = ()


class Instance(NamedTuple):
    """One example, or a batch of them, that runs through the graph.

    >>> Instance(7, [Entry(0, (torch.zeros(1, 3),)), Entry(1, (torch.tensor([2]),))], training=False).reports
    1
    """

    number: int
    """Unique among the instances in flight."""
    entries: Sequence[Entry]
    reports: int = 1
    """The number of reports that loss nodes send about the instance."""
    training: bool = True


class Report(NamedTuple):
    """The report of a loss node about an instance.

    >>> reports = []  # run(..., report=reports.append)
    >>> [report.loss / report.examples for report in reports]
    []
    """

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
    """Feeds instances into the graph. Each of its outputs sends the entries of one port.

    >>> Controller(outputs=2).finished
    True
    """

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


class Delivery(NamedTuple):
    forward: bool
    to: Port
    message: Message


class Route(NamedTuple):
    """The destination of a port's messages: a port, the worker, and whether the node is immediate."""

    to: Port
    worker: int
    immediate: bool


class Stop(NamedTuple):
    """Tells a worker to stop."""


Mailbox: TypeAlias = SimpleQueue[Delivery | Stop]


class Worker:
    def __init__(
        self,
        number: int,
        graph: MessageGraph,
        mailbox: Mailbox,
        post: Callable[[int, Delivery], object],
        stop: Callable[[BaseException | None], object],
        count: Callable[[int], object] = lambda _: None,
    ):
        """post: sends to another worker; stop: sends `Stop` to all workers, including this one, with an error
        or None; count: called with changes of the number of messages.
        """
        self._number, self._graph, self._mailbox = number, graph, mailbox
        self._post, self._stop, self._count = post, stop, count
        self._after, self._before = _routes(graph, graph.after), _routes(graph, graph.before)
        self._gradients: deque[Delivery] = deque()
        self._values: deque[Delivery] = deque()
        self.busy = 0.0
        """CPU seconds of this thread, without the time spent waiting for the interpreter lock."""

    def begin(
        self, instances: Iterable[Instance], max_active: int, report: Callable[[Report], object]
    ) -> None:
        """Start a run. Call it on the controller's worker, before that worker runs; see `Controller.start`.

        Raises ValueError if an earlier run of the graph was interrupted.
        """
        if held := self._graph.outstanding():
            raise ValueError(
                f"an earlier run has failed, build the graph again; nodes that still wait: {held}"
            )
        sends = self._controller.start(instances, max_active, report)
        self._count(len(sends))
        self._send(CONTROLLER, sends)
        self._end_if_finished()

    def run(self) -> None:
        """Handle messages until a `Stop` arrives. An error in a node stops all workers."""
        torch.set_num_threads(1)
        began = time.thread_time()
        try:
            with torch.no_grad():
                while self._receive():
                    self._handle(*(self._gradients or self._values).popleft())
        except BaseException as error:
            self._stop(error)
        self.busy = time.thread_time() - began

    def _receive(self) -> bool:
        """Move messages from the mailbox to the queues, and wait for one if the queues are empty.

        Returns False to stop.
        """
        while not self._mailbox.empty() or not (self._gradients or self._values):
            item = self._mailbox.get()
            if isinstance(item, Stop):
                return False
            self._keep(item)
        return True

    def _handle(self, forward: bool, to: Port, message: Message) -> None:
        """Handle a message, and at once those that the node sends to immediate nodes of this worker."""
        node = self._graph.running[to.node]
        try:
            sends = (node.forward if forward else node.backward)(to.number, message)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise NodeError(f"{to.node}, worker {self._number}, {message.state}: {what}") from error
        if len(sends) != 1:
            self._count(len(sends) - 1)  # before other workers can handle them
        self._send(to.node, sends)
        if to.node == CONTROLLER:
            self._end_if_finished()

    def _send(self, node: str, sends: list[Send]) -> None:
        after, before = self._after[node], self._before[node]
        for forward, port, message in sends:
            to, worker, immediate = (after if forward else before)[port]
            if worker != self._number:
                self._post(worker, Delivery(forward, to, message))
            elif immediate:
                self._handle(forward, to, message)
            else:
                self._keep(Delivery(forward, to, message))

    def _keep(self, delivery: Delivery) -> None:
        (self._values if delivery.forward else self._gradients).append(delivery)

    def _end_if_finished(self) -> None:
        if self._controller.finished:
            self._stop(None)

    @property
    def _controller(self) -> Controller:
        controller = self._graph.nodes[CONTROLLER]
        assert isinstance(controller, Controller)
        return controller


def _routes(graph: MessageGraph, connections: Mapping[Port, Port]) -> Mapping[str, Mapping[int, Route]]:
    """Return the routes by node and by the number of the node's port."""
    routes: dict[str, dict[int, Route]] = {name: {} for name in graph.nodes}
    for (node, port), to in connections.items():
        routes[node][port] = Route(to, graph.worker[to.node], graph.nodes[to.node].immediate)
    return routes


class NodeError(RuntimeError):
    """An exception in a node; the message names the node."""


class LostError(RuntimeError):
    """Another process has failed or is lost."""


def run(
    graph: MessageGraph,
    instances: Iterable[Instance],
    max_active: int,
    report: Callable[[Report], object],
) -> list[float]:
    """Run all instances. Returns the busy seconds of each worker.

    max_active: the number of instances in flight; report: called for each loss by the threads of workers.
    Raises NodeError if a node raises an exception, or if no message is left although some instances are not
    finished.

    >>> graph = MessageGraph()
    >>> graph.add(CONTROLLER, Controller(outputs=2))
    >>> graph.add("scores", Updates(torch.optim.SGD, after=1).of(nn.Linear(3, 3)), worker=1)
    >>> graph.add("loss", Loss(losses_of))
    >>> graph.chain(CONTROLLER, "scores", "loss", CONTROLLER)
    >>> graph.connect((CONTROLLER, 1), ("loss", 1))
    >>> instances = [Instance(n, [Entry(0, (torch.eye(3),)), Entry(1, (torch.arange(3),))]) for n in range(9)]
    >>> examples = []
    >>> busy = run(graph, instances, max_active=4, report=lambda report: examples.append(report.examples))
    >>> sum(examples), len(busy)
    (27, 2)
    """
    graph.check()
    shared = _SharedState(graph)
    workers = [
        Worker(number, graph, box, shared.post, shared.stop, shared.count)
        for number, box in enumerate(shared.mailboxes)
    ]
    workers[graph.worker[CONTROLLER]].begin(instances, max_active, report)
    threads = [
        threading.Thread(target=worker.run, name=f"worker {number}", daemon=True)
        for number, worker in enumerate(workers)
    ]
    threads_before = torch.get_num_threads()
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:  # such as Ctrl-C: stop all workers
        shared.stop(error)
        raise
    finally:
        torch.set_num_threads(threads_before)  # workers set it to 1, and some libraries share one number
    if shared.error:
        raise shared.error
    return [worker.busy for worker in workers]


class _SharedState:
    """The state that the workers share."""

    def __init__(self, graph: MessageGraph):
        self.mailboxes = [Mailbox() for _ in range(graph.workers)]
        self.error: BaseException | None = None
        self._graph, self._lock, self._in_flight = graph, threading.Lock(), 0

    def post(self, worker: int, delivery: Delivery) -> None:
        self.mailboxes[worker].put(delivery)

    def stop(self, error: BaseException | None) -> None:
        """Stop all workers."""
        self.error = self.error or error
        for mailbox in self.mailboxes:
            mailbox.put(Stop())

    def count(self, more: int) -> None:
        """Add to the number of messages in flight.

        If there are none but instances are open, the run is stuck.
        """
        with self._lock:
            self._in_flight += more
            stuck = not self._in_flight and self._graph.running[CONTROLLER].outstanding()
        if stuck:
            self.stop(
                NodeError(f"messages are missing; nodes that wait for some: {self._graph.outstanding()}")
            )
