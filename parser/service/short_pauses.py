"""Keeps a process responsive while it parses: its threads share Python's lock, which each keeps for a while.

Requests are read and written outside of the event loop, which has to answer other requests meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import TypeVar

SWITCH_SECONDS = 0.001
"""Time after which a thread has to pass the lock to another one; Python's default is five times as long. An
answer takes several turns."""
OLD_GARBAGE = 1_000
"""Collections of young objects before one of all objects, which stops all threads for up to 0.1 s. Python's
default is ten. Waiting sentences are many objects, and no garbage."""
TURN, BREAK = 0.005, 0.004
"""Seconds of work in C after which a thread sleeps, and for how long. Without it, the event loop, which gives
up Python's lock several times in each answer, would wait for one call after the other."""
SMALL = 4_096
"""Characters or bytes that take less time to process than it takes to reach another thread."""
LARGE = 1 << 16
"""Characters or bytes of which a short request should not wait for the end."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def keep_pauses_short() -> None:
    """Shorten the pauses of this process. To be called when models and other lasting objects are loaded."""
    gc.collect()
    gc.freeze()  # objects that exist now are not visited again
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OLD_GARBAGE)
    sys.setswitchinterval(SWITCH_SECONDS)


def with_breaks(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, made by a library in C, and let other threads run in between."""
    began = monotonic()
    for item in items:
        if monotonic() - began > TURN:
            sleep(BREAK)
            began = monotonic()
        yield item


class ReadingThreads:
    """Two threads for all requests, one of which does what takes long: they hold Python's lock, so that more
    threads would only wait.
    """

    def __init__(self) -> None:
        self._short, self._long = (ThreadPoolExecutor(1, name) for name in ("reading", "reading long"))

    async def run(self, size: int, function: Callable[[], Result]) -> Result:
        """Run the function, and return its result. size: characters or bytes that it works on.

        If the task is cancelled, a function that is running finishes first.
        """
        if size <= SMALL:
            return function()
        running = (self._short if size < LARGE else self._long).submit(function)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if not running.cancelled():
                ending = asyncio.wrap_future(running)
                # Otherwise asyncio would log the exception, which may quote the text of a request.
                ending.add_done_callback(asyncio.Future.exception)
                await asyncio.wait([ending])
            raise

    def close(self) -> None:
        for executor in (self._short, self._long):
            executor.shutdown(wait=False, cancel_futures=True)
