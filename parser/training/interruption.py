"""Ctrl-C, SIGTERM and a closed terminal: training saves before it ends, other commands clean up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A terminal that closes may send SIGHUP twice: from the shell, and from the kernel."""
OUTPUTS = (1, 2)
"""Standard output and standard error."""


class StoppedError(Exception):
    """Work was stopped by a signal, whose number is `signal`, and has saved or removed its files."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


class StopRequest:
    """Remembers the first signal."""

    def __init__(self, says_so: bool = True) -> None:
        """says_so: whether the user is told at once."""
        self.signal: int | None = None
        self._says_so = says_so
        self._terminals = [output for output in OUTPUTS if os.isatty(output)]

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._leave_terminals()
            if self.signal is not None:
                return
        elif self.signal not in (None, signal.SIGHUP):
            raise KeyboardInterrupt
        self.signal = number
        if self._says_so:
            with suppress(OSError):  # the terminal may be gone
                print("\nsaving, then stopping; send the signal again to stop at once", file=sys.stderr)

    def _leave_terminals(self) -> None:
        """Discard output to the closed terminal: writing there would raise an error before saving."""
        for output in self._terminals:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)


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
def interruptible() -> Iterator[None]:
    """Inside the block a signal raises StoppedError, so that files can be cleaned up; a second one kills."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        raise StoppedError("interrupted", number)

    with _handled_by(stop):
        yield


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
