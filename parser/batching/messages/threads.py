"""A graph run by the threads of one process."""

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
    """Until all instances are done. Returns the seconds for which each worker was busy.

    max_active: instances that are on their way at a time; report: is told of each loss, trace of all work,
    both by the threads of workers. Raises NodeError for what a node raises, and if the graph is stuck.
    """
    graph.check()
    office = _Office(graph)
    workers = [
        Worker(number, graph, box, office.post, office.stop, trace, office.count)
        for number, box in enumerate(office.mailboxes)
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
    except BaseException as error:  # as Ctrl-C is: nobody works on without us
        office.stop(error)
        raise
    if office.error:
        raise office.error
    return [worker.busy for worker in workers]


class _Office:
    """What the workers share."""

    def __init__(self, graph: MessageGraph):
        self.mailboxes = [Mailbox() for _ in range(graph.workers)]
        self.error: BaseException | None = None
        self._graph, self._lock, self._underway = graph, threading.Lock(), 0

    def post(self, worker: int, delivery: Delivery) -> None:
        self.mailboxes[worker].put(delivery)

    def stop(self, error: BaseException | None) -> None:
        """All workers."""
        self.error = self.error or error
        for mailbox in self.mailboxes:
            mailbox.put(Stop())

    def count(self, more: int) -> None:
        """By how much the messages that are underway have become more; without any, nothing can happen."""
        with self._lock:
            self._underway += more
            stuck = not self._underway and self._graph.running[CONTROLLER].held()
        if stuck:
            self.stop(NodeError(f"messages are missing: these nodes wait for some: {self._graph.held()}"))
