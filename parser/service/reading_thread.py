"""Reads and writes requests outside of the event loop, which has to answer other requests meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

SMALL = 4_096
"""Characters or bytes that take less time to process than it takes to reach another thread."""
Result = TypeVar("Result")


class ReadingThread:
    """One thread for all requests: its work holds Python's lock, so more threads would only wait."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "reading")

    async def run(self, size: int, function: Callable[[], Result]) -> Result:
        """Run the function, and return its result. size: characters or bytes that it works on.

        If the task is cancelled, a function that is running finishes first.
        """
        if size <= SMALL:
            return function()
        running = self._executor.submit(function)
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
        self._executor.shutdown(wait=False, cancel_futures=True)
