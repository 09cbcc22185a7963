"""Ctrl-C, SIGTERM and a closed terminal: training saves before it exits, other commands clean up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""When a terminal closes, SIGHUP may arrive twice: from the shell and from the kernel."""
SIGNALLED = 128
"""Shells report this number plus the signal's number as exit code of a process that a signal ended."""
OUTPUTS = (1, 2)
"""Standard output and standard error."""


class StoppedError(Exception):
    """Raised after a signal has stopped work and files have been saved. `signal` is the signal's number."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


class Interrupted(KeyboardInterrupt):
    """A signal arrived, at any point; unfinished files are to be removed. `signal` is the signal's number.

    It is not an Exception, because libraries catch those where they can continue without something.
    """

    def __init__(self, signal: int):
        super().__init__("interrupted")
        self.signal = signal


class StopRequest:
    def __init__(self, says_so: bool = True) -> None:
        """says_so: whether a message is printed when the signal arrives."""
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
            with suppress(OSError):  # the terminal may be closed
                print("\nsaving, then stopping; send the signal again to stop at once", file=sys.stderr)


@contextmanager
def stop_request(says_so: bool = True) -> Iterator[StopRequest]:
    """Remember the first signal that arrives inside the block; a second one interrupts.

    says_so: see `StopRequest`. Has no effect outside of the main thread, the only one in which Python handles
    signals.
    """
    request = StopRequest(says_so)
    with _handled_by(request._remember):
        yield request


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Let a signal end the process with a message inside the block, as there is nothing to clean up yet.

    This is for imports: an error raised by a handler would leave some modules incomplete, and in others it
    would be lost or fatal.
    """

    def end(number: int, frame: FrameType | None) -> None:
        with suppress(OSError, AttributeError):  # it may be closed, or may never have been open
            os.write(sys.stderr.fileno(), b"interrupted\n")
        os._exit(SIGNALLED + number)

    with _handled_by(end):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Let a signal raise Interrupted inside the block, so that files are cleaned up; a second one kills.

    The block exits with Interrupted even if cleaning up raises another error, such as in context managers of
    PyTorch that were interrupted on entry, or if a library turns it into another error.
    """
    terminals = _terminals()
    raised: list[Interrupted] = []

    def stop(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            if signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        if number == signal.SIGHUP:
            _leave(terminals)
        raised.append(Interrupted(number))
        raise raised[0]

    with _handled_by(stop):
        try:
            yield
        except Exception:
            if raised:
                raise raised[0] from None
            raise


@contextmanager
def later() -> Iterator[None]:
    """Delay the handling of a signal that arrives inside the block until its end."""
    came: list[int] = []
    try:
        with _handled_by(lambda number, frame: came.append(number)):
            yield
    finally:
        for number in came[:1]:
            signal.raise_signal(number)


@contextmanager
def handled_by_loop(stop: Callable[[int], None]) -> Iterator[None]:
    """Inside the block, the running loop calls `stop` with the number of each signal that ends the program.

    Signals that the program was started to ignore remain ignored.
    """
    loop = asyncio.get_running_loop()
    handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def ignore_signals() -> None:
    """Ignore signals for the rest of this process, which is about to exit."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _terminals() -> list[int]:
    return [output for output in OUTPUTS if os.isatty(output)]


def _leave(terminals: Sequence[int]) -> None:
    """Discard output to closed terminals: writing there would raise an error before the work is finished."""
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
