"""A graph run by processes, one worker each, on one machine or several.

torchrun starts them; every process builds the same graph, and runs the nodes of the worker that has its rank.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType

import torch
import torch.distributed as dist

from parser.batching.messages.controller import Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.transforms import Parameterised
from parser.batching.messages.wire import packed, unpacked
from parser.batching.messages.worker import Delivery, Mailbox, Span, Stop, Worker

STOPPED, FAILED, LEFT = -1, -2, -3
"""Sent in the place of a size: the run is over; something went wrong; the process sends nothing any more."""


class LostError(RuntimeError):
    def __init__(self, rank: int):
        super().__init__(f"the process of worker {rank} has failed or is lost")


class Processes:
    """This process among the others, between which messages can go as long as it is entered."""

    def __init__(self) -> None:
        """Raises ValueError if torch.distributed has not been initialised."""
        if not dist.is_initialized():
            raise ValueError("torch.distributed.init_process_group('gloo') comes first; torchrun starts all")
        self.rank, self._size = dist.get_rank(), dist.get_world_size()
        self._others = [rank for rank in range(self._size) if rank != self.rank]
        self._mailbox = Mailbox()
        self._weights = dist.new_group(backend="gloo")
        self._lost: list[int] = []
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
        if kind is None:
            self._tell(LEFT)
            for thread in self._receivers:
                thread.join()

    def run(
        self,
        graph: MessageGraph,
        instances: Iterable[Instance],
        most: int,
        report: Callable[[Report], object],
        trace: Callable[[Span], object] | None = None,
    ) -> float:
        """As `threads.run`; all processes call it, and the controller's alone looks at `instances`.

        Returns the seconds for which this process's worker was busy. Raises ValueError for more workers than
        there are processes, LostError where one of these has failed, or is there no more.
        """
        graph.check()
        if graph.workers > self._size:
            raise ValueError(f"{graph.workers} workers, but {self._size} processes")
        errors: list[BaseException] = []

        def stop(error: BaseException | None) -> None:
            if error:
                errors.append(error)
            self._tell(FAILED if error else STOPPED)
            self._mailbox.put(Stop())

        worker = Worker(self.rank, graph, self._mailbox, self._post, stop, trace)
        if graph.worker[CONTROLLER] == self.rank:
            try:
                worker.begin(instances, most, report)
            except Exception:
                self._tell(FAILED)
                raise
        worker.run()
        if errors:
            raise errors[0]
        for rank in self._lost:
            raise LostError(rank)
        return worker.busy

    def share(self, graph: MessageGraph) -> None:
        """All parameters from those whose nodes they are, to everybody."""
        for name, node in graph.nodes.items():
            if isinstance(node, Parameterised):
                for weight in node.module.parameters():
                    dist.broadcast(weight.data, src=graph.worker[name], group=self._weights)
                node.refresh()

    def _post(self, rank: int, delivery: Delivery) -> None:
        content = packed(delivery)
        try:
            dist.send(torch.tensor([len(content)]), dst=rank)
            dist.send(content, dst=rank)
        except RuntimeError as error:
            raise LostError(rank) from error

    def _tell(self, what: int) -> None:
        for rank in self._others:
            with suppress(RuntimeError):  # who is lost need not know
                dist.send(torch.tensor([what]), dst=rank)

    def _receive(self, rank: int) -> None:
        size = torch.empty(1, dtype=torch.int64)
        while True:
            try:
                dist.recv(size, src=rank)
                if (count := int(size)) >= 0:
                    content = torch.empty(count, dtype=torch.uint8)
                    dist.recv(content, src=rank)
                    self._mailbox.put(unpacked(content))
                    continue
            except RuntimeError:
                count = FAILED
            if count == FAILED:
                self._lost.append(rank)
            if count == LEFT:
                return
            self._mailbox.put(Stop())
            if count == FAILED:
                return
