"""What a request may ask for, and how one is told that it asks for more."""

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
"""Of a word. Characters are read one after the other, while other requests wait."""


class RefusedError(HTTPException):
    """A request that gets a message instead of trees."""

    def __init__(self, status: HTTPStatus, message: str, headers: dict[str, str] | None = None):
        super().__init__(status, message, headers)


@dataclass(frozen=True)
class Limits:
    bytes: int
    """Of the body of a request."""
    sentence_words: int
    words: int
    """Of a request."""
    requests: int
    """That are parsed at the same time; those whose clients are slow are not counted."""
    seconds: float
    """From the end of the headers of a request to that of its answer."""

    def check(self, sentences: Iterable[ReadSentence]) -> Iterator[ReadSentence]:
        """The sentences. Raises RefusedError where there are too many words."""
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
        """The check of given trees, whose time grows with the square of the words: first RefusedError is
        raised for sentences that are too long.
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
