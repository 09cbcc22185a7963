"""Reading and writing requests outside of the event loop, which has to answer others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

SMALL = 4_096
"""Characters, or bytes, whose work takes less time than to reach another thread."""
Result = TypeVar("Result")


class ReadingThread:
    """One for all requests: what it does holds Python's lock, so that more would only wait for each other."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "reading")

    async def run(self, size: int, function: Callable[[], Result]) -> Result:
        """What the function returns. size: characters or bytes of what it works on.

        If the task is cancelled, a function that has begun ends first.
        """
        if size <= SMALL:
            return function()
        running = self._executor.submit(function)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if not running.cancelled():
                await asyncio.wait([asyncio.wrap_future(running)])
            raise

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
