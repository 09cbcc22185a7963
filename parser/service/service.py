"""What all routes share: the models, the limits, and the parsing and answering of requests.

The trees of a request come in the order of its sentences, and in bounded memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import NamedTuple

from parser.parsing.engine_thread import AwaitedRequest
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.scheduler import ReadAhead, RequestSource
from parser.service.answer import Answer, ErrorLine
from parser.service.limits import Admission, Limits
from parser.service.reading import InputSentence
from parser.service.request_record import RequestRecord
from parser.service.served_models import ServedModel, ServedModels
from parser.service.short_pauses import SMALL, ReadingThreads, with_breaks
from parser.treebank.sentence import Sentence

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


Write = Callable[[Sequence[ParsedSentence]], bytes]


class Input(NamedTuple):
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

    def opened(self) -> Iterator[InputSentence]:
        """Return what `open` returns, with breaks if a thread reads it that reads what is long."""
        return with_breaks(self.open()) if self.is_text and self.size > SMALL else self.open()


class Service:
    def __init__(self, models: ServedModels, limits: Limits):
        """Raises ValueError for limits that contradict each other."""
        if limits.total_bytes < limits.bytes:
            told = f"--max-total-bytes {limits.total_bytes} is less than --max-bytes {limits.bytes}"
            raise ValueError(f"{told}: raise the first, or lower the second")
        self.models, self.limits = models, limits
        self.admission = Admission(limits.requests, limits.total_bytes)
        self.threads = ReadingThreads()

    async def parse(
        self,
        model: ServedModel,
        given: Input,
        record: RequestRecord,
        write: Write,
        options: ParseOptions = TREE_ALONE,
    ) -> AsyncGenerator[bytes, None]:
        """Parse sentences, and yield what `write` returns for the next of them in order: all that are done.

        Several requests share the engine, whose thread also reads and writes what is short. record: that of
        the request, which is updated. Raises what reading raises, and errors in parsing a sentence.
        """
        record.model = model.name
        if given.size > SMALL:
            async with aclosing(self._parsed(model, given, record, options)) as parsed:
                async for several in parsed:
                    yield await self._write(several, write)
            return
        inputs: list[InputSentence] = []

        def read() -> Iterator[Sentence]:
            for one in model.watched(given.opened(), record.warnings.append, given.is_text):
                inputs.append(one)
                yield one.sentence

        def written(trees: Iterable[ParsedTree]) -> bytes:
            return write(list(map(ParsedSentence, inputs, trees)))

        content = await model.thread.run(read, written, options)
        record.add(len(inputs), _words(inputs))
        yield content

    async def _parsed(
        self, model: ServedModel, given: Input, record: RequestRecord, options: ParseOptions
    ) -> AsyncGenerator[list[ParsedSentence], None]:
        """Yield the parsed sentences in order; those that are done together are yielded together."""
        most_ahead = max(BEGIN_WITH, min(READ_AHEAD, READ_AHEAD_OF_ALL // max(1, self.admission.running)))
        source, ahead = RequestSource(), ReadAhead(BEGIN_WITH, most_ahead)
        pending: deque[tuple[InputSentence, AwaitedRequest]] = deque()
        warn = record.warnings.append
        sentences = await self.threads.run(
            given.size, lambda: model.watched(given.opened(), warn, given.is_text)
        )

        def hand_in(words: int) -> bool:
            """Hand the next sentences, about so many words, to the engine; returns whether there were any."""
            chunk = list(_chunk(sentences, words))
            pending.extend((one, model.thread.add(one.sentence, options, source)) for one in chunk)
            ahead.read(_words(chunk))
            return bool(chunk)

        has_more = True
        try:
            while has_more or pending:
                while has_more and ahead.room > 0:
                    words = min(ahead.room, CHUNK_WORDS)
                    has_more = await self.threads.run(given.size, partial(hand_in, words))
                if not pending:
                    break
                await model.thread.ended(pending[0][1])
                parsed: list[ParsedSentence] = []
                while pending and pending[0][1].has_ended:
                    one, request = pending.popleft()
                    parsed.append(ParsedSentence(one, request.tree()))
                words = _words([one.input for one in parsed])
                ahead.yielded(words)
                record.add(len(parsed), words)
                yield parsed
        finally:
            for _, request in pending:
                request.cancel()

    async def read(self, given: Input, write: Write) -> AsyncGenerator[bytes, None]:
        """Like `parse`, but without parsing."""
        sentences = await self.threads.run(given.size, given.opened)
        while chunk := await self.threads.run(given.size, lambda: list(_chunk(sentences, CHUNK_WORDS))):
            yield await self._write([ParsedSentence(one, NO_TREE) for one in chunk], write)

    async def _write(self, several: Sequence[ParsedSentence], write: Write) -> bytes:
        """Write sentences, outside of the event loop if they are long."""
        words = _words([one.input for one in several])
        return await self.threads.run(words * WORD_BYTES, partial(write, several))

    def answer(
        self, chunks: AsyncGenerator[bytes, None], media_type: str, error_line: ErrorLine | None = None
    ) -> Answer:
        return Answer(chunks, media_type, self.admission, self.limits.seconds, error_line)

    def close(self) -> None:
        """Cancel requests that are still being parsed."""
        self.models.close()
        self.threads.close()


def _chunk(sentences: Iterator[InputSentence], words: int) -> Iterator[InputSentence]:
    """Yield the next sentences, until they have this many words."""
    while words > 0 and (one := next(islice(sentences, 1), None)):
        words -= len(one.sentence)
        yield one


def _words(sentences: Sequence[InputSentence]) -> int:
    return sum(len(one.sentence) for one in sentences)
