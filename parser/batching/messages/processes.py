"""A graph run by processes, one worker each, on one machine or several.

torchrun starts them; every process builds the same graph, and runs the nodes of the worker that has its rank.
What a node's functions know of an instance must therefore be in its messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType

import torch
import torch.distributed as dist
from torch import Tensor

from parser.batching.messages.controller import Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.transforms import Parameterised
from parser.batching.messages.wire import packed, unpacked
from parser.batching.messages.worker import Delivery, LostError, Mailbox, Span, Stop, Worker

STOPPED, FAILED, LEFT = -1, -2, -3
"""Sent in the place of a size: the run is over; something went wrong; the process sends nothing any more."""
FOREVER = timedelta(days=365)
"""Between some processes there is nothing to say for long; one that dies is noticed at once all the same."""

PATIENCE = 10.0
"""Seconds to wait for what others have to say when this process has failed."""


class Processes:
    """This process among the others, between which messages can go as long as it is entered."""

    def __init__(self) -> None:
        """In all processes. Raises ValueError if nobody has initialised torch.distributed."""
        if not dist.is_initialized():
            raise ValueError("torch.distributed.init_process_group('gloo') comes first; torchrun starts all")
        self.rank, self._size = dist.get_rank(), dist.get_world_size()
        self._others = [rank for rank in range(self._size) if rank != self.rank]
        self._messages, self._together = (dist.new_group(timeout=FOREVER, backend="gloo") for _ in range(2))
        self._mailbox = Mailbox()
        self._troubles: list[str] = []
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
            self._tell(LEFT)
        for thread in self._receivers:
            thread.join(PATIENCE if error else None)

    def run(
        self,
        graph: MessageGraph,
        instances: Iterable[Instance],
        max_active: int,
        report: Callable[[Report], object],
        trace: Callable[[Span], object] | None = None,
    ) -> list[float]:
        """As `threads.run`; all processes call it, and the controller's alone looks at `instances`.

        Returns the seconds for which the one worker here was busy. Raises ValueError for more workers than
        there are processes, LostError where another one has failed, or is there no more.
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
        worker.run()
        if self._troubles:
            raise LostError(self._troubles[0])
        if errors:
            raise errors[0]
        dist.barrier(
            group=self._together
        )  # so that nothing of the next run comes before all have ended this one
        return [worker.busy]

    def share(self, graph: MessageGraph) -> None:
        """All parameters from those whose nodes they are, to everybody. In all processes."""
        for name, node in graph.nodes.items():
            if isinstance(node, Parameterised):
                for weight in node.module.parameters():
                    dist.broadcast(weight.data, src=graph.worker[name], group=self._together)
                node.refresh()

    def _post(self, rank: int, delivery: Delivery) -> None:
        try:
            self._send(rank, packed(delivery))
        except RuntimeError as error:
            self._troubles.append(_lost(rank))
            raise LostError(_lost(rank)) from error

    def _tell_failure(self, error: BaseException) -> None:
        """Whoever hears of it passes on the same, so that all name the first cause."""
        cause = self._troubles[0] if self._troubles else f"worker {self.rank} has failed: {error}"
        text = torch.frombuffer(bytearray(cause.encode()), dtype=torch.uint8)
        self._tell(FAILED, text)

    def _tell(self, what: int, content: Tensor | None = None) -> None:
        for rank in self._others:
            with suppress(RuntimeError):  # who is lost need not know
                dist.send(torch.tensor([what]), dst=rank, group=self._messages)
                if content is not None:
                    self._send(rank, content)

    def _send(self, rank: int, content: Tensor) -> None:
        dist.send(torch.tensor([len(content)]), dst=rank, group=self._messages)
        dist.send(content, dst=rank, group=self._messages)

    def _receive(self, rank: int) -> None:
        """All that another process sends, until it leaves."""
        try:
            while (size := self._number(rank)) not in (FAILED, LEFT):
                self._mailbox.put(Stop() if size == STOPPED else unpacked(self._content(rank, size)))
            if size == FAILED:
                trouble = bytes(self._content(rank, self._number(rank)).numpy()).decode()
            else:
                trouble = f"worker {rank} has left: all processes must run equally often"
        except Exception:
            trouble = _lost(rank)
        self._troubles.append(trouble)
        self._mailbox.put(Stop())

    def _number(self, rank: int) -> int:
        number = torch.empty(1, dtype=torch.int64)
        dist.recv(number, src=rank, group=self._messages)
        return int(number)

    def _content(self, rank: int, size: int) -> Tensor:
        """[size] uint8"""
        content = torch.empty(size, dtype=torch.uint8)
        dist.recv(content, src=rank, group=self._messages)
        return content


def _lost(rank: int) -> str:
    return f"the process of worker {rank} is lost"
