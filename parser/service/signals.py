"""Signals handled by an event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parser.system.interruption import SIGNALS


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
