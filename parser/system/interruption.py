"""Ctrl-C, SIGTERM and a closed terminal: training saves before it exits, other commands clean up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal that closes may send SIGHUP twice: from the shell, and from the kernel."""
SIGNALLED = 128
"""Plus the signal's number: the exit code that shells give to a process that a signal ended."""
OUTPUTS = (1, 2)
"""Standard output and standard error."""


class StoppedError(Exception):
    """Raised after a signal has stopped work, and files were saved. `signal` is the signal's number."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


class Interrupted(KeyboardInterrupt):
    """A signal, whose number is `signal`, has come at any place, and what is unfinished is to be removed.

    Libraries catch each Exception in places where they can go on without something, and would go on.
    """

    def __init__(self, signal: int):
        super().__init__("interrupted")
        self.signal = signal


class StopRequest:
    """Remembers the first signal."""

    def __init__(self, says_so: bool = True) -> None:
        """says_so: whether the user is told at once."""
        self.signal: int | None = None
        self._says_so = says_so
        self._terminals = _terminals()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(self._terminals)
            if self.signal is not None:
                return
        elif self.signal not in (None, signal.SIGHUP):
            raise KeyboardInterrupt
        self.signal = number
        if self._says_so and sys.stderr is not None:
            with suppress(OSError):  # the terminal may be gone
                print("\nsaving, then stopping; send the signal again to stop at once", file=sys.stderr)


@contextmanager
def stop_request(says_so: bool = True) -> Iterator[StopRequest]:
    """Inside the block the first signal is remembered, and a second one interrupts.

    says_so: see `StopRequest`. Has no effect outside of the main thread, the only one where Python handles
    signals.
    """
    request = StopRequest(says_so)
    with _handled_by(request._remember):
        yield request


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Inside the block, where there is nothing to clean up yet, a signal ends the process with a message.

    For imports. A handler that raised an error would leave some modules without others, in others it would
    be lost or fatal.
    """

    def end(number: int, frame: FrameType | None) -> None:
        with suppress(OSError, AttributeError):  # it may be closed, or have been from the beginning
            os.write(sys.stderr.fileno(), b"interrupted\n")
        os._exit(SIGNALLED + number)

    with _handled_by(end):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block a signal raises Interrupted, so that files can be cleaned up; a second one kills.

    If cleaning up raises another error, as that of PyTorch's context managers whose beginning was
    interrupted, the block still ends with Interrupted.
    """
    terminals = _terminals()

    def stop(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            if signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        if number == signal.SIGHUP:
            _leave(terminals)
        raise Interrupted(number)

    with _handled_by(stop):
        try:
            yield
        except Exception as error:
            if interrupted := _interruption_behind(error):
                raise interrupted from None
            raise


def _interruption_behind(error: Exception) -> Interrupted | None:
    """That during whose handling the error was raised."""
    behind = error.__context__
    while behind:
        if isinstance(behind, Interrupted):
            return behind
        behind = behind.__context__
    return None


@contextmanager
def later() -> Iterator[None]:
    """A signal that comes inside the block is handled after it."""
    came: list[int] = []
    try:
        with _handled_by(lambda number, frame: came.append(number)):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


def ignore_signals() -> None:
    """For the rest of this process, which is about to end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _terminals() -> list[int]:
    """The outputs that are shown."""
    return [output for output in OUTPUTS if os.isatty(output)]


def _leave(terminals: Sequence[int]) -> None:
    """Discard output to a closed terminal: writing there would raise an error before all is done."""
    for output in terminals:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number in SIGNALS
        # `nohup` lets a program ignore SIGHUP, and a shell lets background programs ignore SIGINT.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
