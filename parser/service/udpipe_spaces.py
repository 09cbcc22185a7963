"""Writes MISC like UDPipe's tokenizer, so that a text can be restored; see "Tokenizer" in its manual."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from parser.service.reading import ReadSentence
from parser.treebank.columns import BLANK, NO_SPACE
from parser.treebank.text.sentences import Token
from parser.treebank.text.udpipe import RANGE

SPACES = re.compile("[\\s\0\ufeff]*")
BREAKS = re.compile("[\v\f\x1c-\x1f\x85\u2028\u2029\0\ufeff]")
"""White space that could be mistaken for the end of a line, and other characters treated as white space."""
ESCAPES = {" ": "\\s", "|": "\\p", "\t": "\\t", "\r": "\\r", "\n": "\\n", "\\": "\\\\"}
ESCAPED = re.compile("[ |\t\r\n\\\\]")


class Spaces:
    """Describes the white space of a text in MISC."""

    def __init__(self, text: str, ranges: bool, normalized: bool):
        """ranges: whether the positions of tokens are written, too. normalized: whether white space is
        described by `SpaceAfter=No` only.
        """
        self._text, self._ranges, self._normalized = text, ranges, normalized
        self._first = _spaces_at(text, 0)

    def told(self, read: ReadSentence) -> ReadSentence:
        """Return a sentence found in the text, with this MISC."""
        assert read.found
        lines = list(read.sentence.lines)
        place = next(number for number, line in enumerate(lines) if not line.startswith("#"))
        for token in read.found.tokens:
            before, _, _ = lines[place].rpartition("\t")
            lines[place] = f"{before}\t{'|'.join(self._of(token)) or BLANK}\n"
            place += 1 if len(token.words) == 1 else 1 + len(token.words)
        return read._replace(sentence=replace(read.sentence, lines=tuple(lines)))

    def _of(self, token: Token) -> Iterator[str]:
        if self._normalized:
            if not token.space_after:
                yield NO_SPACE
        else:
            if token.start == len(self._first) > 0:
                yield f"SpacesBefore={_escaped(self._first)}"
            if (own := self._text[token.start : token.end]) != token.form:
                yield f"SpacesInToken={_escaped(own)}"
            after = _spaces_at(self._text, token.end)
            if not after:
                yield NO_SPACE
            elif after != " ":
                yield f"SpacesAfter={_escaped(after)}"
        if self._ranges:
            yield f"{RANGE}{token.start}:{token.end}"


def _spaces_at(text: str, start: int) -> str:
    found = SPACES.match(text, start)
    return found[0] if found else ""


def _escaped(spaces: str) -> str:
    return ESCAPED.sub(lambda found: ESCAPES[found[0]], BREAKS.sub(" ", spaces))
