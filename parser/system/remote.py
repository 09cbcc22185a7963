"""Objects in separate processes, which share no memory, caches, failures or interpreter lock."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import traceback as tracebacks
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any

from tqdm import tqdm

from parser.system.interruption import later
from parser.system.machine import is_of_memory
from parser.system.processes import environment_for_children

PRELOADED = ("torch", "torch._dynamo", "parser.networks.stack_parser")
"""Modules that take long to import, and that processes need that measure or train: torch._dynamo is for
optimizers."""
NO_METHOD = ""
OF_PROGRAM = "error: "
"""Start of the status of a failure with a traceback, and without one if the process has died."""
SECONDS_TO_END = 10
"""Time in which a process notices that its parent has died, and removes the parent's files."""


class RemoteError(Exception):
    """A failure in the other process, with the traceback if there is one."""

    def __init__(self, status: str, traceback: str = ""):
        super().__init__(status)
        self.status, self.traceback = status, traceback

    @property
    def is_death(self) -> bool:
        """Whether the process has ended."""
        return self.status.startswith(OF_PROGRAM) and not self.traceback


def start_server(modules: Sequence[str] = PRELOADED) -> None:
    """Start the server that imports the modules and from which processes are forked, unless it is running.

    Importing takes seconds, can overlap with other work, and is done once for all processes. They get the
    environment variables with which the server was started.
    """
    # The server has only imported modules. Forks of this process would share CUDA and threads.
    forkserver.set_forkserver_preload(list(modules))
    with _interrupts_blocked(), environment_for_children():
        forkserver.ensure_running()


class Remote:
    """An object in another process. Its methods are called one at a time."""

    def __init__(
        self, make: Callable[..., object], *arguments: Any, timeout: float | None = None, advice: str = ""
    ):
        """make: called with the arguments in the new process, by `begin_making` or the first call.

        timeout: seconds to wait for each answer; None to wait without limit. advice: what may help if the
        process is killed, for the message.
        """
        start_server()
        context = multiprocessing.get_context("forkserver")
        self._connection, theirs = context.Pipe()
        self._timeout, self._advice = timeout, advice
        self._of = make, arguments
        process_arguments = theirs, util.get_temp_dir(), make, arguments
        self._process = context.Process(target=_serve, args=process_arguments, daemon=True)
        with _interrupts_blocked():  # the parent handles Ctrl-C and ends this process
            self._process.start()
        theirs.close()

    def again(self) -> Remote:
        """Return a new process with such an object, which is made by the first call, and close this one."""
        self.close()
        make, arguments = self._of
        return Remote(make, *arguments, timeout=self._timeout, advice=self._advice)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method, and return its result. Raises RemoteError if it fails or does not answer, or if its
        process dies.
        """
        self.begin(method, *arguments)
        return self.answer()

    def begin(self, method: str, *arguments: Any) -> None:
        """Call a method without waiting for its answer. Raises RemoteError if the process is dead."""
        with self._alive():
            self._connection.send((method, arguments))

    def begin_making(self) -> None:
        """Start making the object; `answer` waits for it. Raises RemoteError if the process is dead."""
        self.begin(NO_METHOD)

    def answer(self) -> Any:
        """Return the result of the method that was started. Raises RemoteError like `call`."""
        with self._alive():
            if not self._connection.poll(self._timeout):
                self.close()
                raise RemoteError("timeout", f"no answer within {self._timeout:g} s")
            failure, answer = self._connection.recv()
        if failure:
            raise RemoteError(*failure)
        return answer

    @property
    def connection(self) -> Connection:
        """A connection that is readable when there is an answer or the process is dead."""
        return self._connection

    @contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):  # also in the middle of an answer
            self._process.join()
            if (exit_code := self._process.exitcode) == -signal.SIGKILL:
                advice = self._advice and f": {self._advice}"
                raise RemoteError(f"{OF_PROGRAM}killed, perhaps because memory ran out{advice}") from None
            raise RemoteError(f"{OF_PROGRAM}its process ended with exit code {exit_code}") from None

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started in the block never receive Ctrl-C; this process handles signals after the block."""
    with later():
        resource_tracker.ensure_running()  # starting it after the next line would unblock the signal
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _serve(
    connection: Connection, folder: str, make: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    """Make the object, and answer calls. folder: where multiprocessing keeps its files, which remain if the
    parent is killed.
    """
    # The server from which this process was forked may have been started with the signal unblocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # from a closing terminal, meant for the parent
    end = threading.Thread(target=_end_with_parent, args=(folder,), daemon=True)
    end.start()
    # tqdm's own lock is a semaphore of the system, which is left when this process is killed.
    tqdm.set_lock(threading.RLock())
    instance, is_made = None, False
    with suppress(EOFError, ConnectionError):  # the parent has died, or closed the connection
        while True:
            method, method_arguments = connection.recv()
            try:
                if not is_made:
                    instance, is_made = make(*arguments), True
                answer = None if method == NO_METHOD else getattr(instance, method)(*method_arguments)
                reply = ForkingPickler.dumps((None, answer))
            except Exception as error:  # whatever a plugin raises
                first_line = str(error).partition("\n")[0]
                status = f"{OF_PROGRAM}{type(error).__name__}: {first_line}"
                if is_of_memory(error):
                    status = "out of memory"
                reply = ForkingPickler.dumps(((status, tracebacks.format_exc()), None))
            connection.send_bytes(reply)
    end.join(SECONDS_TO_END)  # otherwise this process would exit before the folder is removed


def _end_with_parent(folder: str) -> None:
    """Exit as soon as the parent does; the next answer without a reader may take as long as a measurement."""
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
