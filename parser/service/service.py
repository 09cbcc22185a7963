"""What all routes share: the models, the limits, and the parsing and answering of requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.service.answer import HELD_BYTES, Answer
from parser.service.limits import Admission, Limits
from parser.service.parsing import (
    BEGIN_WITH,
    READ_AHEAD,
    READ_AHEAD_OF_ALL,
    WORD_BYTES,
    Input,
    ParsedSentence,
    parse_sentences,
    read_sentences,
)
from parser.service.request_record import RequestRecord
from parser.service.served_models import ServedModel, ServedModels
from parser.service.short_pauses import ReadingThreads


class Service:
    def __init__(self, models: ServedModels, limits: Limits):
        """Raises ValueError for limits that contradict each other."""
        if limits.total_bytes < limits.bytes:
            told = f"--max-total-bytes {limits.total_bytes} is less than --max-bytes {limits.bytes}"
            raise ValueError(f"{told}: raise the first, or lower the second")
        self.models, self.limits = models, limits
        self.admission = Admission(limits.requests, limits.total_bytes)
        self.threads = ReadingThreads()

    def read(self, given: Input) -> AsyncGenerator[list[ParsedSentence], None]:
        """See `read_sentences`."""
        return read_sentences(self.threads, given)

    async def parse(
        self, model: ServedModel, given: Input, record: RequestRecord, options: ParseOptions = TREE_ALONE
    ) -> AsyncGenerator[list[ParsedSentence], None]:
        """See `parse_sentences`. record: the record of the request, which is updated."""
        record.model = model.name
        warn = record.warnings.append
        watched = given._replace(open=lambda: model.watched(given.open(), warn, given.is_text))
        most = max(BEGIN_WITH, min(READ_AHEAD, READ_AHEAD_OF_ALL // max(1, self.admission.running)))
        async with aclosing(parse_sentences(model.thread, self.threads, watched, options, most)) as parsed:
            async for several in parsed:
                record.add(len(several), sum(len(one.input.sentence) for one in several))
                yield several

    async def write(self, several: Sequence[ParsedSentence], written: Callable[[], bytes]) -> bytes:
        """Return the result of `written`, run outside of the event loop if the sentences are long."""
        words = sum(len(one.input.sentence) for one in several)
        return await self.threads.run(words * WORD_BYTES, written)

    def answer(
        self, chunks: AsyncGenerator[bytes, None], media_type: str, held_bytes: int = HELD_BYTES
    ) -> Answer:
        """See `Answer`."""
        return Answer(chunks, media_type, self.admission, self.limits.seconds, held_bytes)

    def close(self) -> None:
        """Cancel requests that are still being parsed."""
        self.models.close()
        self.threads.close()
