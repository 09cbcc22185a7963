"""Unicode's form NFC of texts that anybody sends, in time linear in their length."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby

from parser.service.reading import pieces_of, refuse_undivided

MARKS = 100
"""Maximum number of combining marks after a letter: sorting them takes time quadratic in their number."""


def normalized(text: str) -> str:
    """Return the text in NFC. Raises ValueError for long parts without a blank, and for too many marks."""
    refuse_undivided(text, "data", "raw")
    return "".join(_normalized_pieces(text))


def _normalized_pieces(text: str) -> Iterator[str]:
    for piece in pieces_of(text):  # white space never combines with what precedes it
        if piece.isascii():
            yield piece
            continue
        for is_mark, run in groupby(piece, key=_is_mark):
            if is_mark and sum(1 for _ in run) > MARKS:
                raise ValueError(f"data has more than {MARKS} combining marks one after the other")
        yield unicodedata.normalize("NFC", piece)


def _is_mark(character: str) -> bool:
    return unicodedata.combining(character) > 0
