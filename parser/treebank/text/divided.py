"""Tokenizers of text that is already divided by blanks and lines. They need no training and no packages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from parser.treebank.text.sentences import Token, TokenizedSentence
from parser.treebank.text.tokenizer import TokenizerKind

LINE, WORD = re.compile(r"[^\n]+"), re.compile(r"\S+")


class Lines(TokenizerKind):
    """For text that is already divided: each line is a sentence, and blanks separate its words."""

    kind: Literal["lines"]

    def opened(self, content: bytes) -> DividedText:
        return DividedText(by_lines=True)


class Blanks(TokenizerKind):
    """For text that is already divided: blanks and line ends separate words, and blank lines separate
    sentences. Each word may therefore be on its own line."""

    kind: Literal["blanks"]

    def opened(self, content: bytes) -> DividedText:
        return DividedText(by_lines=False)


class DividedText:
    """A tokenizer that follows the blanks and lines of a text. It finds no paragraphs."""

    reads_divided_text = True

    def __init__(self, by_lines: bool):
        """by_lines: whether each line is a sentence; else each paragraph is one."""
        self._by_lines = by_lines

    def sentences(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        """See `Tokenizer`."""
        lines = (line.span() for line in LINE.finditer(paragraph))
        for start, end in lines if self._by_lines else [(0, len(paragraph))]:
            words = list(WORD.finditer(paragraph, start, end))
            tokens = tuple(
                Token(word[0], offset + word.start(), offset + word.end(), (word[0],), True) for word in words
            )
            if tokens:
                yield TokenizedSentence(tokens, " ".join(word[0] for word in words), False)
