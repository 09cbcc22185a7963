"""A graph run by the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from parser.batching.messages.controller import Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.worker import Mailbox, Span, Stop, Worker


def run(
    graph: MessageGraph,
    instances: Iterable[Instance],
    most: int,
    report: Callable[[Report], object],
    trace: Callable[[Span], object] | None = None,
) -> list[float]:
    """Until all instances are done. Returns the seconds for which each worker was busy.

    most: instances that are on their way at a time; report: is told of each loss, trace of all that is done,
    both by the threads of workers. Raises what a node raises, with its name in a note.
    """
    graph.check()
    mailboxes = [Mailbox() for _ in range(graph.workers)]
    stop = _Stopper(mailboxes)
    workers = [
        Worker(number, graph, box, lambda other, delivery: mailboxes[other].put(delivery), stop.all, trace)
        for number, box in enumerate(mailboxes)
    ]
    first = workers[graph.worker[CONTROLLER]]
    first.begin(instances, most, report)
    threads = [threading.Thread(target=worker.run, name=f"worker {n}") for n, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if stop.error:
        raise stop.error
    return [worker.busy for worker in workers]


class _Stopper:
    """Tells all workers to stop, once."""

    def __init__(self, mailboxes: list[Mailbox]):
        self._mailboxes = mailboxes
        self.error: BaseException | None = None

    def all(self, error: BaseException | None) -> None:
        self.error = self.error or error
        for mailbox in self._mailboxes:
            mailbox.put(Stop())
