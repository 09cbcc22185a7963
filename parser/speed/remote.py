"""Objects in processes of their own, so that no measurement warms, fills or breaks another's."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from parser.machine import is_of_memory, tune_process


class RemoteError(Exception):
    """What a row's status will say, and where the other process was."""

    def __init__(self, status: str, where: str = ""):
        super().__init__(status)
        self.status, self.where = status, where


class Remote:
    """An object in a process of its own, whose methods are called one at a time."""

    def __init__(self, make: Callable[..., object], *arguments: Any, timeout: float):
        """make: called with the arguments in the new process. timeout: seconds to wait for any answer."""
        context = multiprocessing.get_context("spawn")  # a fork would share CUDA and threads
        self._connection, theirs = context.Pipe()
        self._timeout = timeout
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        with _interrupts_blocked():  # Ctrl-C is the parent's to answer, by ending this process
            self._process.start()
        theirs.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Raises RemoteError if the method fails, does not answer, or its process dies."""
        try:
            self._connection.send((method, arguments))
            if not self._connection.poll(self._timeout):
                self.close()
                raise RemoteError("timeout", f"{method} did not answer within {self._timeout:g} s")
            failure, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise RemoteError(_death(self._process.exitcode)) from None
        if failure:
            raise RemoteError(*failure)
        return answer

    def close(self) -> None:
        """End the process, whatever it does."""
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
    """What is started within never sees a Ctrl-C, and this process sees it afterwards."""
    resource_tracker.ensure_running()  # it would end the blocking if it were started within
    interrupts: list[int] = []  # that other threads, for which nothing is blocked, have taken
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            signal.raise_signal(signal.SIGINT)


def _serve(connection: Connection, make: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    tune_process()
    thing = None
    with suppress(EOFError, BrokenPipeError):  # the parent has died
        while True:
            method, method_arguments = connection.recv()
            try:
                thing = thing or make(*arguments)
                connection.send((None, getattr(thing, method)(*method_arguments)))
            except BrokenPipeError:
                raise
            except Exception as error:  # whatever a plugin does
                connection.send(((_status(error), traceback.format_exc()), None))


def _status(error: Exception) -> str:
    if is_of_memory(error):
        return "out of memory"
    first_line = str(error).partition("\n")[0]
    return f"error: {type(error).__name__}: {first_line}"


def _death(exit_code: int | None) -> str:
    if exit_code == -signal.SIGKILL:
        return "error: killed, perhaps by the system for want of memory: lower `together` in the config"
    return f"error: its process ended with exit code {exit_code}"
