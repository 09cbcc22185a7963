"""What comes of an answer that is sent sentence by sentence.

If it fails after the first sentence, its connection is cut, and its last line tells the error if the service
still can.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx

from parser.client.errors import REQUEST_ID, ServiceError, lost
from parser.client.messages import AnsweredSentence
from parser.system.console import counted

ERROR = b"# error = "
"""The beginning of the last line of CoNLL-U that fails: the status and, after a colon, what is wrong."""
SENTENCE_END = b"\n\n"


class NdjsonStream:
    """The sentences in the pieces of an answer: a line of JSON each."""

    def __init__(self, answer: httpx.Response):
        self._answer = answer
        self._rest = b""
        self._count = 0

    def add(self, piece: bytes) -> Iterator[AnsweredSentence]:
        """Yield the sentences that are complete now. Raises ServiceError for a line that tells an error."""
        # Only these line ends: httpx's own iterator of lines takes others, which may be in a text, too.
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "detail" in told:  # which no sentence has
                raise broken_off(self._count, told["detail"], self._answer, told["status"])
            self._count += 1
            yield told

    def cut(self, error: httpx.TransportError) -> ServiceError:
        """Return the error of an answer whose connection failed."""
        return broken_off(self._count, str(lost(error)), self._answer)


class ConlluStream:
    """CoNLL-U in the pieces of an answer."""

    def __init__(self, answer: httpx.Response):
        self._answer = answer
        self._content = bytearray()

    def add(self, piece: bytes) -> None:
        self._content += piece

    def cut(self, error: httpx.TransportError) -> ServiceError:
        """Return the error of an answer whose connection failed."""
        return self._told_error() or broken_off(self._sentences, str(lost(error)), self._answer)

    def text(self) -> str:
        """Return the complete answer. Raises ServiceError if its last line tells an error."""
        if error := self._told_error():
            raise error
        return self._content.decode()

    @property
    def _sentences(self) -> int:
        return self._content.count(SENTENCE_END)

    def _told_error(self) -> ServiceError | None:
        # A comment of a sentence, which may be the same, comes before a sentence's end.
        last = self._content.rpartition(SENTENCE_END)[2]
        if not (last.startswith(ERROR) and last.endswith(b"\n")):
            return None
        status, _, detail = last.removeprefix(ERROR).decode().strip().partition(": ")
        return broken_off(self._sentences, detail, self._answer, int(status))


def broken_off(
    sentences: int, reason: str, answer: httpx.Response, status: int | None = None
) -> ServiceError:
    """Return the error of an answer that ended after so many sentences. status: if the service told it."""
    told = f"the answer was broken off after {counted(sentences, 'sentence')}: {reason}"
    return ServiceError(told, status, answer.headers.get(REQUEST_ID))
