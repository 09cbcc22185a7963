"""Reads and writes requests outside of the event loop, which has to answer other requests meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

SMALL = 4_096
"""Characters or bytes that take less time to process than it takes to reach another thread."""
LARGE = 1 << 16
"""Characters or bytes of which a short request should not wait for the end."""
Result = TypeVar("Result")


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
