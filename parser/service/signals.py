"""Signals that an event loop handles."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parser.system.interruption import SIGNALS


@contextmanager
def handled_by_loop(stop: Callable[[int], None]) -> Iterator[None]:
    """The loop that runs calls `stop` with the number of each signal that is to end the program.

    Those that the program was started to ignore stay ignored.
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
