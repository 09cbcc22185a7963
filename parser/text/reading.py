"""The sentences of a text: raw, with a sentence in each line, or tokenized."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from parser.text.parts import TextPart
from parser.text.sentences import Token, TokenizedSentence, as_sentence
from parser.treebank.parts import LAST_SPACE
from parser.treebank.sentence import Sentence

TextFormat = Literal["raw", "one-sentence-per-line", "tokenized"]
BLANK_LINES = re.compile(r"\n\s*\n")
"""Between paragraphs."""
LINE, WORD = re.compile(r"[^\n]+"), re.compile(r"\S+")
NUL = 0
"""Which would end the text for a library in C."""
BLANKS = {
    code: " " for code in range(LAST_SPACE + 1) if code == NUL or (chr(code).isspace() and code != ord("\n"))
}


class Tokenizer(Protocol):
    def sentences(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        """See `UDPipeTokenizer.sentences`."""


class TextReader:
    """Divides texts into sentences."""

    def __init__(self, form: TextFormat, tokenizer: Tokenizer | None):
        """tokenizer: None only for tokenized text."""
        self._form, self._tokenizer = form, tokenizer

    def sentences(self, text: str, offset: int = 0) -> Iterator[TokenizedSentence]:
        """The sentences of a text, or of a part of one that begins after `offset` characters.

        Blank lines end paragraphs, and so sentences.
        """
        text = text.translate(BLANKS)  # a character for a character
        if self._tokenizer is None:
            yield from _tokenized(text, offset)
            return
        is_sentence = self._form == "one-sentence-per-line"
        for start, end in _lines(text) if is_sentence else _paragraphs(text):
            yield from self._tokenizer.sentences(text[start:end], offset + start, is_sentence)


def read_parts(reader: TextReader, parts: Iterable[TextPart]) -> Iterator[Sentence]:
    """The sentences of a text of any length, numbered from 1."""
    found = (one for part in parts for one in reader.sentences(part.content, part.offset))
    return (as_sentence(one, ordinal) for ordinal, one in enumerate(found, 1))


def _tokenized(text: str, offset: int) -> Iterator[TokenizedSentence]:
    """A sentence for each line, whose tokens are divided by blanks."""
    for start, end in _lines(text):
        words = list(WORD.finditer(text, start, end))
        tokens = tuple(
            Token(word[0], offset + word.start(), offset + word.end(), (word[0],), True) for word in words
        )
        yield TokenizedSentence(tokens, " ".join(word[0] for word in words), False)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Where each line that is not blank starts and ends."""
    for line in LINE.finditer(text):
        if not line[0].isspace():
            yield line.span()


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Where each paragraph starts and ends."""
    start = 0
    for blank in BLANK_LINES.finditer(text):
        if not text[start : blank.start()].isspace() and blank.start() > start:
            yield start, blank.start()
        start = blank.end()
    if start < len(text) and not text[start:].isspace():
        yield start, len(text)
