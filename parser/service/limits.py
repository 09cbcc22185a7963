"""The limits on a request, and the errors that are raised if it exceeds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from starlette.exceptions import HTTPException

from parser.service.reading import ReadSentence
from parser.treebank.sentence import Sentence

Found = TypeVar("Found")

WORD_CHARACTERS = 1_000
"""Maximum characters of a word. They are read one after the other, while other requests wait."""


class RefusedError(HTTPException):
    """A request is answered with an error message instead of trees."""

    def __init__(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None):
        super().__init__(status, message, headers)


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

    def check(self, sentences: Iterable[ReadSentence]) -> Iterator[ReadSentence]:
        """Return the sentences. Raises RefusedError if there are too many words."""
        total = 0
        for number, read in enumerate(sentences, 1):
            words = len(read.sentence)
            self._refuse_long(words, number)
            longest = max(map(len, read.sentence.forms))
            if longest > WORD_CHARACTERS:
                raise too_large(
                    f"sentence {number} has a word of {longest:,} characters, of at most {WORD_CHARACTERS:,}"
                )
            total += words
            if total > self.words:
                raise too_large(f"the request has more than {self.words:,} words; divide it")
            yield read

    def before(self, check: Callable[[Sentence], Found]) -> Callable[[Sentence], Found]:
        """Return a check of given trees that first raises RefusedError for sentences that are too long: the
        time of the check grows with the square of the number of words.
        """

        def limited(sentence: Sentence) -> Found:
            self._refuse_long(len(sentence), sentence.identifier)
            return check(sentence)

        return limited

    def _refuse_long(self, words: int, name: int | str) -> None:
        if words > self.sentence_words:
            raise too_large(
                f"sentence {name} has {words:,} words; at most {self.sentence_words:,} are parsed"
            )


def too_large(message: str) -> RefusedError:
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def wrong(message: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, message)
