"""A tokenizer with the rules of spaCy."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Any, Literal

from pydantic import Field

from parser.system.version import to_install
from parser.text.tokenizer import Paragraph, Token, TokenizedSentence, TokenizerKind, in_windows, joined

WINDOW = 8_192
"""Characters that take spaCy at most some ten milliseconds."""


class Spacy(TokenizerKind):
    """The rules of spaCy for a language. Sentences end at punctuation (`sentencizer`). Nothing is trained.
    Words that the treebank divides by other rules are not found. Needs the extra `spacy`."""

    extra = "spacy"

    kind: Literal["spacy"]
    language: str = Field(pattern="^[a-z]{2,3}$")
    """Language code as used by spaCy, such as `en`; `xx` selects rules for no language in particular."""

    def refuse_missing(self) -> None:
        """See `TokenizerKind`. Also raises if spaCy does not know the language or needs another package."""
        SpacyTokenizer(self.language)

    def opened(self, content: bytes) -> SpacyTokenizer:
        return SpacyTokenizer(self.language)


class SpacyTokenizer:
    reads_divided_text = False

    def __init__(self, language: str):
        """Raises ValueError, which says what to install, if spaCy or a package that it needs is missing."""
        try:
            import spacy
        except ImportError:
            raise ValueError(f"the rules of spaCy need spacy: {to_install('spacy')}") from None
        try:
            self._nlp = spacy.blank(language)
        except ImportError as error:
            raise ValueError(f"spaCy does not divide text of the language {language}: {error}") from None
        self._nlp.add_pipe("sentencizer")
        self._nlp.max_length = sys.maxsize  # the limit is for components that need much memory
        self._lock = Lock()

    def sentences(self, paragraphs: Iterable[Paragraph], is_sentence: bool) -> Iterator[TokenizedSentence]:
        """See `Tokenizer`."""
        for text, offset in paragraphs:
            parts = in_windows(text, offset, WINDOW, partial(self._divide, is_sentence=is_sentence))
            yield from joined(parts) if is_sentence else parts

    def _divide(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        # Outside a memory zone, spaCy keeps each new word forever. Only one thread can be in a zone.
        with self._lock, self._nlp.memory_zone():
            spans = [self._nlp.make_doc(paragraph)] if is_sentence else self._nlp(paragraph).sents
            sentences = [tuple(_tokens(span, paragraph, offset)) for span in spans]
        begins = not is_sentence
        for tokens in filter(None, sentences):
            yield TokenizedSentence.of(Paragraph(paragraph, offset), tokens, begins)
            begins = False


def _tokens(span: Any, paragraph: str, offset: int) -> Iterator[Token]:
    """The tokens of a spaCy document or sentence that are not white space."""
    for token in span:
        if form := " ".join(token.text.split()):
            end = token.idx + len(token.text)
            space_after = end == len(paragraph) or paragraph[end].isspace()
            yield Token(form, offset + token.idx, offset + end, (form,), space_after)
