"""The trees of a request, in the order of its sentences and in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from parser.parsing.engine_thread import AwaitedRequest, EngineThread
from parser.parsing.parse_options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.read_ahead import ReadAhead
from parser.parsing.scheduler import RequestSource
from parser.service.reading import ReadSentence
from parser.service.reading_thread import ReadingThread

BEGIN_WITH, READ_AHEAD = 256, 16_384
"""Words that are read and not yet parsed: a short request at once, and less of a long one than in a program
that has no others."""
CHUNK_WORDS = 2_048
"""That are read at a time, so that other requests take turns."""
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
    engine: EngineThread, thread: ReadingThread, given: Input, options: ParseOptions
) -> AsyncGenerator[list[ParsedSentence], None]:
    """Those that are done together are yielded together. Sources of several requests share the engine.

    Raises what reading raises, and what goes wrong with a sentence.
    """
    source, ahead = RequestSource(), ReadAhead(BEGIN_WITH, READ_AHEAD)
    pending: deque[tuple[ReadSentence, AwaitedRequest]] = deque()
    sentences = await thread.run(given.size, given.open)

    def hand_in(words: int) -> bool:
        """Returns whether there were some."""
        chunk = list(_chunk(sentences, words))
        pending.extend((read, engine.add(read.sentence, options, source)) for read in chunk)
        ahead.read(_words(chunk))
        return bool(chunk)

    has_more = True
    try:
        while has_more or pending:
            while has_more and ahead.room > 0:
                has_more = await thread.run(given.size, partial(hand_in, min(ahead.room, CHUNK_WORDS)))
            if not pending:
                break
            await engine.ended(pending[0][1])
            found: list[ParsedSentence] = []
            while pending and pending[0][1].has_ended:
                read, request = pending.popleft()
                found.append(ParsedSentence(read, request.tree()))
            ahead.yielded(_words([one.read for one in found]))
            yield found
    finally:
        for _, request in pending:
            request.cancel()


async def read_sentences(thread: ReadingThread, given: Input) -> AsyncGenerator[list[ParsedSentence], None]:
    """As `parse_sentences`, but nothing is parsed."""
    sentences = await thread.run(given.size, given.open)
    while chunk := await thread.run(given.size, lambda: list(_chunk(sentences, CHUNK_WORDS))):
        yield [ParsedSentence(read, NO_TREE) for read in chunk]


def _chunk(sentences: Iterator[ReadSentence], words: int) -> Iterator[ReadSentence]:
    """About so many words of them."""
    while words > 0 and (found := next(islice(sentences, 1), None)):
        words -= len(found.sentence)
        yield found


def _words(sentences: list[ReadSentence]) -> int:
    return sum(len(read.sentence) for read in sentences)
