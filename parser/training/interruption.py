"""Ctrl-C and SIGTERM while training: a step is finished and saved before the run ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(Exception):
    """A run that was asked to stop, and has saved what it has. `signal` is who asked."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


class StopRequest:
    """Whether somebody has asked."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        with suppress(OSError):  # the terminal may be gone
            print("\nstopping when this is saved; once more to stop at once", file=sys.stderr)


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Signals are remembered within; a second one interrupts. Python lets only its main thread do that."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request._remember) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
