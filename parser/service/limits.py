"""The limits on a request and on all requests together, and the errors that are raised beyond them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from parser.service.error_forms import RETRY_AFTER
from parser.service.reading import InputSentence
from parser.service.request_record import RequestRecord
from parser.treebank.sentence import Sentence

WORD_CHARACTERS = 1_000
"""Maximum characters of a word. They are read one after the other, while other requests wait."""
STOPPING = "the service is being stopped"
IDENTITY = "identity"
DROPPED = 16
"""A body that is too large is read and dropped up to this multiple of the limit."""
Checked = TypeVar("Checked")


class RefusedError(HTTPException):
    """A request is answered with an error message instead of trees."""

    def __init__(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None):
        super().__init__(status, message, headers)


def too_large(message: str) -> RefusedError:
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def wrong(message: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, message)


@dataclass(frozen=True)
class Limits:
    bytes: int
    """Maximum size of the body of a request."""
    total_bytes: int
    """Maximum size of the bodies of all requests together, until they are answered."""
    sentence_words: int
    words: int
    """Maximum number of words in a request."""
    requests: int
    """Maximum number of requests that are parsed at a time, not counting requests of slow clients."""
    seconds: float
    """Maximum time from the end of the headers of a request to the end of its answer."""

    def check(self, sentences: Iterable[InputSentence]) -> Iterator[InputSentence]:
        """Return the sentences. Raises RefusedError if there are too many words."""
        total = 0
        for number, one in enumerate(sentences, 1):
            words = len(one.sentence)
            self._refuse_long(words, number)
            longest = max(map(len, one.sentence.forms))
            if longest > WORD_CHARACTERS:
                raise too_large(
                    f"sentence {number} has a word of {longest:,} characters, of at most {WORD_CHARACTERS:,}"
                )
            total += words
            if total > self.words:
                raise too_large(f"the request has more than {self.words:,} words; divide it")
            yield one

    def before(self, check: Callable[[Sentence], Checked]) -> Callable[[Sentence], Checked]:
        """Return a check of given trees that first raises RefusedError for sentences that are too long: the
        time of the check grows with the square of the number of words.
        """

        def limited(sentence: Sentence) -> Checked:
            self._refuse_long(len(sentence), sentence.identifier)
            return check(sentence)

        return limited

    def _refuse_long(self, words: int, name: int | str) -> None:
        if words > self.sentence_words:
            raise too_large(
                f"sentence {name} has {words:,} words; at most {self.sentence_words:,} are parsed"
            )


class Admission:
    """Counts the requests that are worked on. To be used from the event loop only."""

    def __init__(self, most: int, most_bytes: int):
        """most, most_bytes: the maximum number of requests at the same time, and of bytes in their bodies."""
        self._most, self._most_bytes = most, most_bytes
        self.running, self.bytes = 0, 0
        self.drains = False
        """Whether the service is stopping."""
        self.refused = {"requests": 0, "bytes": 0, "stopping": 0}
        """Requests that were refused, by what was too much."""

    def refuse_if_full(self) -> None:
        """Raises RefusedError if too many requests are worked on, or if the service is stopping."""
        if self.drains:
            self._refuse("stopping", HTTPStatus.SERVICE_UNAVAILABLE, STOPPING)
        if self.running >= self._most:
            message = f"{self.running:,} requests are parsed or wait already; try again later"
            self._refuse("requests", HTTPStatus.TOO_MANY_REQUESTS, message)

    def hold(self, size: int) -> None:
        """Count bytes of a body; `release` counts them out. Raises RefusedError if they are too many."""
        if self.bytes + size > self._most_bytes:
            message = f"{self.bytes:,} bytes of other requests wait already; try again later, or send less"
            self._refuse("bytes", HTTPStatus.TOO_MANY_REQUESTS, message)
        self.bytes += size

    def _refuse(self, reason: str, status: HTTPStatus, message: str) -> NoReturn:
        self.refused[reason] += 1
        raise RefusedError(status, message, RETRY_AFTER)

    def release(self, size: int) -> None:
        self.bytes -= size

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count a request as worked on inside the block. Raises what `refuse_if_full` raises."""
        self.refuse_if_full()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Free the slot for other requests inside the block, while the request waits for its client."""
        self.running -= 1
        try:
            yield
        finally:
            self.running += 1


class LimitedBody:
    """The body of a request. Reading it raises RefusedError if it or all bodies together are too large, if it
    does not arrive in time, if it is compressed or otherwise encoded, and if the service is full.
    """

    def __init__(
        self, receive: Receive, headers: Headers, record: RequestRecord, limits: Limits, admission: Admission
    ):
        self._receive, self._headers, self._record = receive, headers, record
        self._limits, self._admission = limits, admission
        length = headers.get("content-length", "")
        self._told = int(length) if length.isdecimal() else 0
        self._got = self._held = 0
        self._is_complete = not self._told and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        """Receive the next message, like the function `receive` of ASGI."""
        if self._is_complete:  # the next message says that the client has disconnected
            return await self._receive()
        if not self._got:  # what will be refused is refused before it is read
            self._refuse_encoded()
            self._admission.refuse_if_full()
            await self._refuse_large(self._told)
        try:
            async with asyncio.timeout(self._limits.seconds - self._record.seconds):
                message = await self._receive()
        except TimeoutError:
            text = f"the request did not come within {self._limits.seconds:g} seconds"
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, text) from None
        self._got += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        await self._refuse_large(self._got)
        # Held when they come: otherwise clients that only announce bodies could take the room of others.
        self._admission.hold(self._got - self._held)
        self._held = self._got
        return message

    def release(self) -> None:
        """Let other requests have the room that the body took."""
        self._admission.release(self._held)

    def _refuse_encoded(self) -> None:
        given = ",".join(self._headers.getlist("content-encoding"))
        if codings := {coding.strip() for coding in given.lower().split(",")} - {"", IDENTITY}:
            message = f"the body has the Content-Encoding {', '.join(sorted(codings))}; send it without one"
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message, {"Accept-Encoding": IDENTITY})

    async def _refuse_large(self, size: int) -> None:
        if size > self._limits.bytes:
            if not self._is_complete:
                await self._drop()
            raise too_large(f"the request has more than {self._limits.bytes:,} bytes; divide it")

    async def _drop(self) -> None:
        """Read and drop the rest, within bounds: most clients read no answer while they still send."""
        dropped, has_more = 0, True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.seconds - self._record.seconds):
                while has_more and dropped < DROPPED * self._limits.bytes:
                    message = await self._receive()
                    has_more = message.get("more_body", False)
                    dropped += len(message.get("body", b""))
