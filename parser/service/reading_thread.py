"""Reading and writing requests outside of the event loop, which has to answer others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from parser.service.reading import ReadSentence

SMALL = 4_096
"""Characters, or bytes, whose work takes less time than to reach another thread."""
CHUNK_WORDS = 2_048
"""That are read at a time, so that other requests take turns."""
Result = TypeVar("Result")


class ReadingThread:
    """One for all requests: what it does holds Python's lock, so that more would only wait for each other."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "reading")

    async def run(self, size: int, function: Callable[[], Result]) -> Result:
        """What the function returns. size: characters or bytes of what it works on."""
        if size <= SMALL:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    async def next(self, size: int, sentences: Iterator[ReadSentence], words: int) -> list[ReadSentence]:
        """About so many words of them; empty at the end. size: of the whole input."""
        return await self.run(size, lambda: list(_chunk(sentences, min(words, CHUNK_WORDS))))

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def _chunk(sentences: Iterator[ReadSentence], words: int) -> Iterator[ReadSentence]:
    while words > 0 and (found := next(islice(sentences, 1), None)):
        words -= len(found.sentence)
        yield found
