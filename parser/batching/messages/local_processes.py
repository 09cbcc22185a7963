"""Run a graph in several processes of this machine, which the first one starts; see `processes.py`.

The others get commands by a pipe, and end when it is closed. They also end if the first one is killed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any, BinaryIO

import torch
import torch.distributed as dist

from parser.batching.messages.controller import Instance, Report
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.processes import Processes
from parser.batching.messages.replicas import staleness, update_all
from parser.batching.messages.worker import LostError, Span
from parser.batching.precision import Precision, present_precision, set_precision
from parser.lifeline import end, lifeline, started
from parser.machine import tune_process

HOST = "127.0.0.1"
START_TIMEOUT = timedelta(seconds=120)
"""For all processes to begin."""
END_TIMEOUT = 10.0
"""Seconds for a process to end by itself."""
RUN, UPDATE, SHARE, STALENESS = "run", "update", "share", "staleness"
"""Commands, each with an argument; see the functions of `LocalProcesses`."""


class LocalProcesses:
    """This process, with the first worker, and processes for the others."""

    def __init__(self, graph: MessageGraph, make_graph: Callable[[], MessageGraph]):
        """make_graph: makes the same graph in the other processes; it is pickled.

        Raises ValueError if the controller is not on the first worker, or processes are running already.
        """
        if graph.worker[CONTROLLER]:
            raise ValueError(f"the controller must be on the first worker, not on {graph.worker[CONTROLLER]}")
        if dist.is_initialized():
            raise ValueError("this process is in a process group of torch.distributed already")
        self.graph, size = graph, graph.workers
        store = dist.TCPStore(HOST, 0, size, is_master=True, wait_for_workers=False)
        self._others: list[subprocess.Popen[bytes]] = []
        self._inputs: list[BinaryIO] = []
        self._stack = ExitStack()
        try:
            line = self._stack.enter_context(lifeline())
            for rank in range(1, size):
                process, commands = _started(rank, size, store.port, line)
                self._others.append(process)
                self._inputs.append(commands)
            self._write(make_graph)
            _join(store, 0, size)
            self._processes = Processes(HOST).__enter__()
        except BaseException:
            self._kill()
            if dist.is_initialized():
                dist.destroy_process_group()
            raise

    def run(
        self,
        graph: MessageGraph,
        instances: Iterable[Instance],
        max_active: int,
        report: Callable[[Report], object],
        trace: Callable[[Span], object] | None = None,
    ) -> list[float]:
        """As `threads.run`, with the busy seconds and the spans of this process only."""
        assert graph is self.graph
        self._tell(RUN, max_active)
        return self._processes.run(graph, instances, max_active, report, trace)

    def update(self) -> None:
        """Update all parameters with the remaining gradients."""
        self._tell(UPDATE)
        update_all(self.graph)

    def share(self, source: int | None = None) -> None:
        """Broadcast all parameters from the processes that own them, or from one process."""
        self._tell(SHARE, source)
        self._processes.share(self.graph, source)

    def staleness(self) -> Counter[int]:
        """The number of gradients by their staleness, of all processes."""
        self._tell(STALENESS)
        return sum(self._processes.gather(staleness(self.graph)), Counter[int]())

    def close(self) -> None:
        """End the other processes."""
        self._processes.leave()
        self._kill(END_TIMEOUT)
        self._processes.close()
        dist.destroy_process_group()

    def _tell(self, command: str, argument: int | None = None) -> None:
        self._write((command, argument))

    def _write(self, given: Any) -> None:
        content = pickle.dumps(given)
        for commands in self._inputs:
            with suppress(BrokenPipeError):  # the run finds out which process is lost
                commands.write(content)
                commands.flush()

    def _kill(self, timeout: float = 0.0) -> None:
        for commands in self._inputs:
            with suppress(OSError):
                commands.close()
        for process in self._others:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
            end(process)
        self._stack.close()


def _started(rank: int, size: int, port: int, line: int) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """A process that ends with the lifeline, and a pipe for its commands."""
    theirs, ours = os.pipe()
    code = f"from {__name__} import main; main({rank}, {size}, {port}, {present_precision()!r}, {theirs})"
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path}
    process = started([sys.executable, "-c", code], line, pass_fds=(theirs,), env=environment)
    os.close(theirs)
    return process, open(ours, "wb")


def _join(store: dist.Store, rank: int, size: int) -> None:
    if sys.platform == "linux":  # without it gloo looks for the address of the host's name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=START_TIMEOUT)


def main(rank: int, size: int, port: int, precision: Precision, file: int) -> None:
    """Another process: follow the commands from an open file."""
    tune_process()
    torch.set_num_threads(1)
    set_precision(precision, torch.device("cpu"))
    with suppress(EOFError, LostError), open(file, "rb") as commands:
        graph: MessageGraph = pickle.load(commands)()
        _join(dist.TCPStore(HOST, port, size, is_master=False), rank, size)
        with Processes(HOST) as processes:
            _follow(graph, processes, commands)


def _follow(graph: MessageGraph, processes: Processes, commands: BinaryIO) -> None:
    while True:
        try:
            command, argument = pickle.load(commands)
        except EOFError:
            return
        if command == RUN:
            processes.run(graph, (), argument, lambda _: None)
        elif command == UPDATE:
            update_all(graph)
        elif command == SHARE:
            processes.share(graph, argument)
        elif command == STALENESS:
            processes.gather(staleness(graph))
