"""Run a graph in several processes, one worker each, on one machine or several.

Each process builds the same graph, and runs the nodes of the worker with its rank. The functions of a node
can therefore depend on an instance only through its messages. torchrun starts the processes of `Processes`.
`LocalProcesses` starts its own processes on this machine. They get commands through a pipe, and exit when the
pipe is closed. They also exit if the first process is killed.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from queue import SimpleQueue
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from parser.batching import Precision
from parser.batching.functional import present_precision, set_precision
from parser.batching.messages.asynchronous_updates import Parameterised, staleness, update_all
from parser.batching.messages.message_graph import CONTROLLER, MessageGraph
from parser.batching.messages.tcp_connections import (
    Bytes,
    Connections,
    delivery_from_bytes,
    delivery_to_bytes,
)
from parser.batching.messages.workers import (
    Delivery,
    Instance,
    LostError,
    Mailbox,
    Report,
    Stop,
    Worker,
)
from parser.system.processes import end, environment, lifeline, python, start_process
from parser.system.pytorch import tune_process

SharedT = TypeVar("SharedT")
STOPPED, FINISHED, FAILED, EXITED = -1, -2, -3, -4
"""Sent instead of a size: the run is complete; the sender has finished it; it has failed; it leaves."""
TIMEOUT = timedelta(days=365)
"""The time limit of `share` and `gather`. A process can have to wait long; gloo detects dead processes."""

FAILURE_TIMEOUT = 10.0
"""Seconds to wait for the messages of each other process after this one has failed."""
LOCALHOST = "127.0.0.1"
JOIN_TIMEOUT = timedelta(seconds=120)
"""The time limit for all processes to start."""
END_TIMEOUT = 10.0
"""Seconds to wait for a process to exit by itself."""
RUN, UPDATE, SHARE, STALENESS = "run", "update", "share", "staleness"
"""Commands, each with an argument; see the functions of `LocalProcesses`."""


class Processes:
    """A context manager for this process. Messages are exchanged while it is entered."""

    def __init__(self, first: str | None = None):
        """Connect to the other processes. Must be called in all processes.

        first: the name or address of the machine with the first process; by default MASTER_ADDR, which
        torchrun sets. Raises ValueError if torch.distributed is not initialised, and OSError if another
        process cannot be reached.
        """
        if not dist.is_initialized():
            raise ValueError(
                "call torch.distributed.init_process_group('gloo') first; torchrun starts all processes"
            )
        self.rank, self._size = dist.get_rank(), dist.get_world_size()
        self._others = [rank for rank in range(self._size) if rank != self.rank]
        self._together = dist.new_group(timeout=TIMEOUT, backend="gloo")
        self._connections = Connections(first or os.environ.get("MASTER_ADDR", LOCALHOST))
        self._finished: dict[int, SimpleQueue[str | None]] = {rank: SimpleQueue() for rank in self._others}
        """By process: None for each run that it has finished, or the reason why it will finish no more."""
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
            self.tell_failure(error)
        else:
            self.leave()
        self.close(FAILURE_TIMEOUT if error else None)

    def leave(self) -> None:
        """Notify the other processes that this process will not run again."""
        self._tell(EXITED)

    def close(self, timeout: float | None = None) -> None:
        """Close the connections after the other processes have left. timeout: seconds to wait for each."""
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
    ) -> list[float]:
        """Like `workers.run`. All processes must call it; only the controller's process reads `instances`.

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

        worker = Worker(self.rank, graph, self._mailbox, self._post, stop)
        if graph.worker[CONTROLLER] == self.rank:
            worker.begin(instances, max_active, report)
        threads = torch.get_num_threads()
        worker.run()
        torch.set_num_threads(threads)
        if self._failures:
            raise LostError(self._failures[0])
        if errors:
            raise errors[0]
        # Wait, so that no message of the next run arrives before all processes have finished this run.
        self._tell(FINISHED)
        for finished in self._finished.values():
            if failure := finished.get():
                raise LostError(failure)
        return [worker.busy]

    def share(self, graph: MessageGraph, source: int | None = None) -> None:
        """Broadcast all parameters from the processes that own their nodes, or from one process.

        Must be called in all processes. Raises LostError.
        """
        for name, node in graph.nodes.items():
            if isinstance(node, Parameterised):
                for weight in node.module.parameters():
                    owner = graph.worker[name] if source is None else source
                    with _losses():
                        dist.broadcast(weight.data, src=owner, group=self._together)
                node.refresh()

    def gather(self, mine: SharedT) -> list[SharedT]:
        """Return one object from each process, in all processes. All must call this. Raises LostError."""
        gathered: list[Any] = [None] * self._size
        with _losses():
            dist.all_gather_object(gathered, mine, group=self._together)
        return gathered

    def _post(self, rank: int, delivery: Delivery) -> None:
        try:
            self._connections.send(rank, delivery_to_bytes(delivery))
        except OSError as error:
            self._failures.append(_lost(rank))
            raise LostError(_lost(rank)) from error

    def tell_failure(self, error: BaseException) -> None:
        """Notify the other processes of a failure. They pass it on, so that all report the first cause."""
        cause = self._failures[0] if self._failures else f"worker {self.rank} has failed: {error}"
        self._tell(FAILED, np.frombuffer(cause.encode(), np.uint8))

    def _tell(self, what: int, content: Bytes | None = None) -> None:
        for rank in self._others:
            with suppress(OSError):  # a lost process cannot be notified
                self._connections.send_number(rank, what)
                if content is not None:
                    self._connections.send(rank, content)

    def _receive(self, rank: int) -> None:
        """Receive the messages of another process until it leaves."""
        try:
            receive_number, receive = self._connections.receive_number, self._connections.receive
            while (size := receive_number(rank)) not in (FAILED, EXITED):
                if size == FINISHED:
                    self._finished[rank].put(None)
                else:
                    self._mailbox.put(Stop() if size == STOPPED else delivery_from_bytes(receive(rank, size)))
            if size == FAILED:
                failure = receive(rank, receive_number(rank)).tobytes().decode()
            else:
                failure = f"worker {rank} has left: all processes must call run the same number of times"
        except OSError:
            failure = _lost(rank)
        except Exception as error:  # such as a lack of memory
            failure = f"a message of worker {rank} cannot be read: {type(error).__name__}: {error}"
        self._failures.append(failure)
        self._finished[rank].put(failure)
        self._mailbox.put(Stop())


@contextmanager
def _losses() -> Iterator[None]:
    """Raise LostError for gloo's RuntimeError, which reports the loss of another process."""
    try:
        yield
    except RuntimeError as error:
        raise LostError(f"another process is lost: {error}") from error


def _lost(rank: int) -> str:
    return f"the process of worker {rank} is lost"


class LocalProcesses:
    """This process, which runs the first worker, and processes for the other workers."""

    def __init__(self, graph: MessageGraph, make_graph: Callable[[], MessageGraph]):
        """make_graph: makes the same graph in the other processes; it is pickled.

        Raises ValueError if the controller is not on the first worker, or processes are running already.
        """
        made_by = getattr(make_graph, "func", make_graph)  # of a partial
        if getattr(made_by, "__module__", "") == "__main__":
            raise ValueError(
                f"{make_graph} is of the main script, which other processes do not import: move it elsewhere"
            )
        if graph.worker[CONTROLLER]:
            raise ValueError(f"the controller must be on the first worker, not on {graph.worker[CONTROLLER]}")
        if dist.is_initialized():
            raise ValueError("this process is in a process group of torch.distributed already")
        self.graph, size = graph, graph.workers
        store = dist.TCPStore(LOCALHOST, 0, size, is_master=True, wait_for_workers=False)
        self._others: list[subprocess.Popen[bytes]] = []
        self._inputs: list[BinaryIO] = []
        self._stack = ExitStack()
        try:
            line = self._stack.enter_context(lifeline())
            precision = present_precision()
            of_cpu = "float32" if precision == "tf32" else precision
            for rank in range(1, size):  # each process exits with the lifeline
                theirs, ours = os.pipe()
                arguments = (rank, size, store.port, of_cpu, theirs)
                code = f"from {__name__} import follow_commands; follow_commands{arguments!r}"
                process = start_process(python("-c", code), line, pass_fds=(theirs,), env=environment())
                os.close(theirs)
                self._others.append(process)
                self._inputs.append(os.fdopen(ours, "wb"))
            self._write(make_graph)
            _join(store, 0, size)
            self._processes = Processes(LOCALHOST).__enter__()
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
    ) -> list[float]:
        """Like `workers.run`, with the busy seconds of this process only.

        It raises no NodeError for missing messages, but waits for them.
        """
        assert graph is self.graph
        self._command(RUN, max_active)
        try:
            return self._processes.run(graph, instances, max_active, report)
        except BaseException as error:
            self._processes.tell_failure(error)  # the other processes would wait
            raise

    def update(self) -> None:
        """Update all parameters with the remaining gradients."""
        self._command(UPDATE)
        update_all(self.graph)

    def share(self, source: int | None = None) -> None:
        """Broadcast all parameters from the processes that own them, or from one process."""
        self._command(SHARE, source)
        self._processes.share(self.graph, source)

    def staleness(self) -> Counter[int]:
        """Count the gradients of all processes by their staleness."""
        self._command(STALENESS)
        return sum(self._processes.gather(staleness(self.graph)), Counter[int]())

    def close(self) -> None:
        """Stop the other processes."""
        self._processes.leave()
        self._kill(END_TIMEOUT)
        self._processes.close()
        dist.destroy_process_group()

    def _command(self, command: str, argument: int | None = None) -> None:
        self._write((command, argument))

    def _write(self, content: Any) -> None:
        pickled = pickle.dumps(content)
        for commands in self._inputs:
            with suppress(BrokenPipeError):  # the run finds out which process is lost
                commands.write(pickled)
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


def _join(store: dist.Store, rank: int, size: int) -> None:
    if sys.platform == "linux":  # otherwise gloo looks up the address of the host's name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=JOIN_TIMEOUT)


def follow_commands(rank: int, size: int, port: int, precision: Precision, file: int) -> None:
    """The main function of another process: follow the commands from an open file."""
    tune_process()
    torch.set_num_threads(1)
    set_precision(precision, torch.device("cpu"))
    with suppress(EOFError, LostError), open(file, "rb") as commands:
        graph: MessageGraph = pickle.load(commands)()
        _join(dist.TCPStore(LOCALHOST, port, size, is_master=False), rank, size)
        with Processes(LOCALHOST) as processes:
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
