"""Run a graph in the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from parser.batching.messages.controller import Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.worker import Delivery, Mailbox, NodeError, Span, Stop, Worker


def run(
    graph: MessageGraph,
    instances: Iterable[Instance],
    max_active: int,
    report: Callable[[Report], object],
    trace: Callable[[Span], object] | None = None,
) -> list[float]:
    """Run all instances. Returns the busy seconds of each worker.

    max_active: the number of instances in flight; report: called for each loss; trace: called for each
    handled message. Both are called by the threads of workers. Raises NodeError if a node raises an
    exception, and if no message is left although instances are not finished.
    """
    graph.check()
    shared = _SharedState(graph)
    workers = [
        Worker(number, graph, box, shared.post, shared.stop, trace, shared.count)
        for number, box in enumerate(shared.mailboxes)
    ]
    workers[graph.worker[CONTROLLER]].begin(instances, max_active, report)
    threads = [
        threading.Thread(target=worker.run, name=f"worker {number}", daemon=True)
        for number, worker in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:  # such as Ctrl-C: stop all workers
        shared.stop(error)
        raise
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
            stuck = not self._in_flight and self._graph.running[CONTROLLER].held()
        if stuck:
            self.stop(NodeError(f"messages are missing; nodes that wait for some: {self._graph.held()}"))
