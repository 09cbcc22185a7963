"""Ctrl-C, SIGTERM and a terminal that closes: training saves before the end, other work is broken off."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The last may come more than once from one terminal: from the shell, and from the system after it."""
OUTPUTS = (1, 2)
"""Standard output and standard error."""


class StoppedError(Exception):
    """Work that was asked to stop, and has left all in order. `signal` is who asked."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


class StopRequest:
    """Whether somebody has asked."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._terminals = [output for output in OUTPUTS if os.isatty(output)]

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._leave_terminals()
            if self.signal is not None:
                return
        elif self.signal not in (None, signal.SIGHUP):
            raise KeyboardInterrupt
        self.signal = number
        with suppress(OSError):  # the terminal may be gone
            print("\nstopping when this is saved; once more to stop at once", file=sys.stderr)

    def _leave_terminals(self) -> None:
        """They are closed: to write there would be an error, and nothing be saved."""
        for output in self._terminals:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Signals are remembered within; a second one interrupts. Python lets only its main thread do that."""
    request = StopRequest()
    with _handled_by(request._remember):
        yield request


@contextmanager
def broken_off() -> Iterator[None]:
    """A signal raises StoppedError within, so that unfinished files are removed; one more ends at once."""

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
        # `nohup` has a closed terminal ignored, and a shell Ctrl-C for what is in its background.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
