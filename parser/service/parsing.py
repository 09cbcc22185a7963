"""The trees of a request, in the order of its sentences and in bounded memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import NamedTuple

from parser.parsing.engine_thread import EngineThread
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.scheduler import RequestSource
from parser.service.reading import ReadSentence
from parser.service.reading_thread import ReadingThread

BEGIN_WITH, READ_AHEAD = 256, 16_384
"""Words that are read and not yet parsed: before the first tree, and later."""
WORD_BYTES = 16
"""About what a word takes to write, in bytes that are read."""
NO_TREE = ParsedTree((), ())
"""Of sentences that nobody wants to be parsed."""


class ParsedSentence(NamedTuple):
    read: ReadSentence
    tree: ParsedTree


class Input(NamedTuple):
    """What is to be parsed."""

    open: Callable[[], Iterator[ReadSentence]]
    """Reads what can be refused before anything is parsed. Raises RefusedError and ValueError."""
    size: int
    """Characters or bytes, about."""


async def parse_sentences(
    engine: EngineThread, thread: ReadingThread, given: Input, probabilities: bool
) -> AsyncGenerator[list[ParsedSentence], None]:
    """Those that are done together are yielded together. Sources of several requests share the engine.

    Raises what reading raises, and what goes wrong with a sentence.
    """
    source, has_more = RequestSource(), True
    pending: deque[tuple[ReadSentence, asyncio.Task[ParsedTree]]] = deque()
    most, words = BEGIN_WITH, 0
    sentences = await thread.run(given.size, given.open)
    try:
        while has_more or pending:
            while has_more and words < most:
                chunk = await thread.next(given.size, sentences, most - words)
                has_more = bool(chunk)
                for read in chunk:
                    parsing = engine.parse(read.sentence, probabilities, source)
                    pending.append((read, asyncio.create_task(parsing)))
                    words += len(read.sentence)
            found: list[ParsedSentence] = []
            while pending and (pending[0][1].done() or not found):
                found.append(ParsedSentence(pending[0][0], await pending[0][1]))
                pending.popleft()
            if found:
                words -= sum(len(one.read.sentence) for one in found)
                most = READ_AHEAD
                yield found
    finally:
        for _, task in pending:
            task.cancel()
        await asyncio.gather(*(task for _, task in pending), return_exceptions=True)


async def read_sentences(thread: ReadingThread, given: Input) -> AsyncGenerator[list[ParsedSentence], None]:
    """As `parse_sentences`, but nothing is parsed."""
    sentences = await thread.run(given.size, given.open)
    while chunk := await thread.next(given.size, sentences, READ_AHEAD):
        yield [ParsedSentence(read, NO_TREE) for read in chunk]
