"""The trees of a request, in the order of its sentences and in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from parser.parsing.engine_thread import AwaitedRequest, EngineThread
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.scheduler import ReadAhead, RequestSource
from parser.service.reading import InputSentence
from parser.service.short_pauses import ReadingThreads

BEGIN_WITH, READ_AHEAD = 256, 16_384
"""Words that are read ahead of parsing, at first and at most. A short request is read at once, and less of a
long one than in a program without other requests."""
READ_AHEAD_OF_ALL = 32_768
"""Words that about all requests together read ahead, to bound memory."""
CHUNK_WORDS = 2_048
"""Words that are read at a time, so that requests take turns."""
WORD_BYTES = 16
"""Writing a word takes about as long as reading this number of bytes."""
TOKENIZED_BYTES = 8
"""Tokenizing a character takes about as long as reading this number of bytes."""
NO_TREE = ParsedTree((), ())
"""The tree of sentences that are not to be parsed."""


class ParsedSentence(NamedTuple):
    input: InputSentence
    tree: ParsedTree


class Input(NamedTuple):
    """What is to be parsed."""

    open: Callable[[], Iterator[InputSentence]]
    """Reads the sentences; invalid input is refused before anything is parsed. Raises RefusedError and
    ValueError."""
    size: int
    """Approximate number of characters or bytes, by which the time of reading is judged."""
    is_text: bool = False

    @classmethod
    def of_text(cls, open: Callable[[], Iterator[InputSentence]], size: int) -> Input:
        """A text of about so many characters, which is to be tokenized."""
        return cls(open, size * TOKENIZED_BYTES, is_text=True)


async def parse_sentences(
    engine: EngineThread, threads: ReadingThreads, given: Input, options: ParseOptions, most: int
) -> AsyncGenerator[list[ParsedSentence], None]:
    """Yield the parsed sentences in order; those that are done together are yielded together.

    Several requests share the engine. most: maximum number of words that are read ahead. Raises what reading
    raises, and errors in parsing a sentence.
    """
    source, ahead = RequestSource(), ReadAhead(BEGIN_WITH, most)
    pending: deque[tuple[InputSentence, AwaitedRequest]] = deque()
    sentences = await threads.run(given.size, given.open)

    def hand_in(words: int) -> bool:
        """Hand the next sentences, about so many words, to the engine; returns whether there were any."""
        chunk = list(_chunk(sentences, words))
        pending.extend((one, engine.add(one.sentence, options, source)) for one in chunk)
        ahead.read(_words(chunk))
        return bool(chunk)

    has_more = True
    try:
        while has_more or pending:
            while has_more and ahead.room > 0:
                has_more = await threads.run(given.size, partial(hand_in, min(ahead.room, CHUNK_WORDS)))
            if not pending:
                break
            await engine.ended(pending[0][1])
            parsed: list[ParsedSentence] = []
            while pending and pending[0][1].has_ended:
                one, request = pending.popleft()
                parsed.append(ParsedSentence(one, request.tree()))
            ahead.yielded(_words([one.input for one in parsed]))
            yield parsed
    finally:
        for _, request in pending:
            request.cancel()


async def read_sentences(threads: ReadingThreads, given: Input) -> AsyncGenerator[list[ParsedSentence], None]:
    """Like `parse_sentences`, but without parsing."""
    sentences = await threads.run(given.size, given.open)
    while chunk := await threads.run(given.size, lambda: list(_chunk(sentences, CHUNK_WORDS))):
        yield [ParsedSentence(one, NO_TREE) for one in chunk]


def _chunk(sentences: Iterator[InputSentence], words: int) -> Iterator[InputSentence]:
    """Yield the next sentences, until they have this many words."""
    while words > 0 and (one := next(islice(sentences, 1), None)):
        words -= len(one.sentence)
        yield one


def _words(sentences: list[InputSentence]) -> int:
    return sum(len(one.sentence) for one in sentences)
