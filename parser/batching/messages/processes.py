"""Run a graph in several processes, one worker each, on one machine or several.

torchrun or `local_processes.py` start the processes. Each builds the same graph, and runs the nodes of the
worker with its rank. The functions of a node can therefore depend on an instance only through its messages.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from parser.batching.messages.connections import Bytes, Connections
from parser.batching.messages.controller import Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.parameterised import Parameterised
from parser.batching.messages.wire import packed, unpacked
from parser.batching.messages.worker import Delivery, LostError, Mailbox, Span, Stop, Worker

T = TypeVar("T")
STOPPED, FINISHED, FAILED, LEFT = -1, -2, -3, -4
"""Sent instead of a size: the run is complete; the process has finished it; it has failed; it leaves."""
TIMEOUT = timedelta(days=365)
"""Of `share` and `gather`, in which a process may have to wait long for others; gloo detects dead ones."""

FAILURE_TIMEOUT = 10.0
"""Seconds to wait for the messages of each other process after this one has failed."""


class Processes:
    """A context manager for this process. Messages are exchanged while it is entered."""

    def __init__(self, first: str | None = None):
        """To be called in all processes.

        first: name or address of the machine with the first process; by default MASTER_ADDR, which torchrun
        sets. Raises ValueError if torch.distributed is not initialised, and OSError if another process is
        not reached.
        """
        if not dist.is_initialized():
            raise ValueError(
                "call torch.distributed.init_process_group('gloo') first; torchrun starts all processes"
            )
        self.rank, self._size = dist.get_rank(), dist.get_world_size()
        self._others = [rank for rank in range(self._size) if rank != self.rank]
        self._together = dist.new_group(timeout=TIMEOUT, backend="gloo")
        self._connections = Connections(first or os.environ.get("MASTER_ADDR", "127.0.0.1"))
        self._finished: dict[int, SimpleQueue[str | None]] = {rank: SimpleQueue() for rank in self._others}
        """From each other process: None for each run that it has finished; or why it will finish no more."""
        self._mailbox = Mailbox()
        self._failures: list[str] = []
        self._receivers = [
            threading.Thread(target=self._receive, args=(rank,), daemon=True) for rank in self._others
        ]

    def __enter__(self) -> Processes:
        for thread in self._receivers:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error:
            self._tell_failure(error)
        else:
            self.leave()
        self.close(FAILURE_TIMEOUT if error else None)

    def leave(self) -> None:
        """Tell the others that this process runs no more."""
        self._tell(LEFT)

    def close(self, timeout: float | None = None) -> None:
        """Close the connections when the others have left. timeout: seconds to wait for each of them."""
        for thread in self._receivers:
            if thread.ident is not None:
                thread.join(timeout)
        self._connections.close()

    def run(
        self,
        graph: MessageGraph,
        instances: Iterable[Instance],
        max_active: int,
        report: Callable[[Report], object],
        trace: Callable[[Span], object] | None = None,
    ) -> list[float]:
        """As `threads.run`. All processes must call it; only that of the controller reads `instances`.

        Returns the busy seconds of this process's worker. Raises ValueError for more workers than processes,
        and LostError if another process has failed or is lost.
        """
        if graph.workers > self._size:
            raise ValueError(f"{graph.workers} workers, but {self._size} processes")
        if any(thread.ident is None for thread in self._receivers):
            raise ValueError("enter the processes first: with Processes() as processes: ...")
        graph.check()
        errors: list[BaseException] = []

        def stop(error: BaseException | None) -> None:
            if error:
                errors.append(error)
            else:
                self._tell(STOPPED)
            self._mailbox.put(Stop())

        worker = Worker(self.rank, graph, self._mailbox, self._post, stop, trace)
        if graph.worker[CONTROLLER] == self.rank:
            worker.begin(instances, max_active, report)
        own_threads = torch.get_num_threads()
        worker.run()
        torch.set_num_threads(own_threads)
        if self._failures:
            raise LostError(self._failures[0])
        if errors:
            raise errors[0]
        self._wait_for_others()
        return [worker.busy]

    def _wait_for_others(self) -> None:
        """No message of the next run must arrive before all processes have finished this one."""
        self._tell(FINISHED)
        for finished in self._finished.values():
            if failure := finished.get():
                raise LostError(failure)

    def share(self, graph: MessageGraph, source: int | None = None) -> None:
        """Broadcast all parameters from the processes that own their nodes, or from one process.

        To be called in all processes. Raises LostError.
        """
        for name, node in graph.nodes.items():
            if isinstance(node, Parameterised):
                for weight in node.module.parameters():
                    owner = graph.worker[name] if source is None else source
                    with _losses():
                        dist.broadcast(weight.data, src=owner, group=self._together)
                node.refresh()

    def gather(self, own: T) -> list[T]:
        """An object of each process, in all of them. To be called in all processes. Raises LostError."""
        found: list[Any] = [None] * self._size
        with _losses():
            dist.all_gather_object(found, own, group=self._together)
        return found

    def _post(self, rank: int, delivery: Delivery) -> None:
        try:
            self._connections.send(rank, packed(delivery))
        except OSError as error:
            self._failures.append(_lost(rank))
            raise LostError(_lost(rank)) from error

    def _tell_failure(self, error: BaseException) -> None:
        """Processes pass on what they are told, so that all name the first cause."""
        cause = self._failures[0] if self._failures else f"worker {self.rank} has failed: {error}"
        self._tell(FAILED, np.frombuffer(cause.encode(), np.uint8))

    def _tell(self, what: int, content: Bytes | None = None) -> None:
        for rank in self._others:
            with suppress(OSError):  # a lost process cannot be told
                self._connections.send_number(rank, what)
                if content is not None:
                    self._connections.send(rank, content)

    def _receive(self, rank: int) -> None:
        """Receive the messages of another process until it leaves."""
        try:
            receive_number, receive = self._connections.receive_number, self._connections.receive
            while (size := receive_number(rank)) not in (FAILED, LEFT):
                if size == FINISHED:
                    self._finished[rank].put(None)
                else:
                    self._mailbox.put(Stop() if size == STOPPED else unpacked(receive(rank, size)))
            if size == FAILED:
                failure = receive(rank, receive_number(rank)).tobytes().decode()
            else:
                failure = f"worker {rank} has left: all processes must call run the same number of times"
        except OSError:
            failure = _lost(rank)
        except Exception as error:  # such as a lack of memory
            failure = f"a message of worker {rank} can not be read: {type(error).__name__}: {error}"
        self._failures.append(failure)
        self._finished[rank].put(failure)
        self._mailbox.put(Stop())


@contextmanager
def _losses() -> Iterator[None]:
    """Gloo tells that another process is lost by a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        raise LostError(f"another process is lost: {error}") from error


def _lost(rank: int) -> str:
    return f"the process of worker {rank} is lost"
