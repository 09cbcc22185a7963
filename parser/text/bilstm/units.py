"""What the tokenizer's network reads and decides.

A *unit* is a piece of text between two places where tokens are divided or where there is a blank. A token is
one unit, or several with the blanks between them, as in Vietnamese.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.text.bilstm.multiword_tokens import MultiwordTokens, Words
from parser.text.treebank_text import begins_paragraph, surface_tokens
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Lexicon

CATEGORIES = tuple(
    group[0] + minor
    for group in ("Lultmo", "Mnce", "Ndlo", "Pcdseifo", "Smcko", "Zslp", "Ccfson")
    for minor in group[1:]
)
"""The categories of Unicode: all that is known of a character that training has not seen."""
CATEGORY_NUMBERS = {category: number for number, category in enumerate(CATEGORIES)}
LEAST_CHARACTERS, LEAST_FORMS = 3, 2
"""How often a character or a form must occur in training to get an embedding."""
DECISIONS = ENDS_SENTENCE, CONTINUES, IS_MULTIWORD = range(3)
"""On each unit: whether a sentence ends after it, whether its token goes on after the blank that follows, and
whether it is, or ends, a multiword token."""
UNIT_FEATURES = 2
"""Of a unit: whether a blank or the end of the paragraph follows, and whether the latter."""
Decided = NDArray[np.bool_]


class Alphabet(NamedTuple):
    """What the tokenizer knows of its treebank."""

    characters: Lexicon
    forms: Lexicon
    """Units in small letters."""
    multiword_tokens: MultiwordTokens


@dataclass(frozen=True)
class KnownUnits:
    """A paragraph of a treebank, and the right decisions."""

    text: str
    starts: NDArray[np.int64]
    """[units] In characters."""
    ends: NDArray[np.int64]
    """[units]"""
    decided: Decided
    """[units, decisions]"""
    multiword_tokens: Sequence[tuple[str, Words]]
    """Their forms and words."""

    @property
    def forms(self) -> list[str]:
        """See `forms_of`."""
        return forms_of(self.text, self.starts.tolist(), self.ends.tolist())


def known_units(sentences: Iterable[Sentence]) -> list[KnownUnits]:
    """The paragraphs of a treebank."""
    paragraphs: list[_Paragraph] = []
    for sentence in sentences:
        if not paragraphs or begins_paragraph(sentence):
            paragraphs.append(_Paragraph())
        paragraphs[-1].add(sentence)
    return [paragraph.units() for paragraph in paragraphs]


def alphabet_of(paragraphs: Sequence[KnownUnits]) -> Alphabet:
    """What occurs often enough."""
    characters = [character for each in paragraphs for character in each.text]
    forms = [form for each in paragraphs for form in each.forms]
    multiword = (token for each in paragraphs for token in each.multiword_tokens)
    return Alphabet(
        _frequent(characters, LEAST_CHARACTERS), _frequent(forms, LEAST_FORMS), MultiwordTokens.of(multiword)
    )


class PlacesRead(NamedTuple):
    """The characters of a text that the network reads: a run of white space is one blank."""

    codes: NDArray[np.uint32]
    """[read]"""
    places: NDArray[np.int64]
    """[read] Of each in the text."""


def places_read(codes: NDArray[np.uint32]) -> PlacesRead:
    """codes: of a text, in which blanks and line ends are the only white space, see `TextReader`."""
    blank = is_blank(codes)
    places = np.flatnonzero(~(blank & np.append(False, blank[:-1])))
    return PlacesRead(np.where(blank, ord(" "), codes)[places].astype(np.uint32), places)


def code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)


def is_blank(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    blank: NDArray[np.bool_] = (codes == ord(" ")) | (codes == ord("\n"))
    return blank


def forms_of(text: str, starts: Iterable[int], ends: Iterable[int]) -> list[str]:
    """The units in small letters."""
    return [text[start:end].lower() for start, end in zip(starts, ends, strict=True)]


def features_of(codes: NDArray[np.uint32], ends: NDArray[np.int64]) -> NDArray[np.float32]:
    """[units, UNIT_FEATURES] codes: of the text that the network reads. ends: [units]."""
    blank_after = is_blank(np.append(codes, ord(" ")))[ends]
    return np.stack([blank_after, ends == len(codes)], axis=1).astype(np.float32)


def category_of(character: str) -> int:
    return CATEGORY_NUMBERS[unicodedata.category(character)]


def units_in(codes: NDArray[np.uint32], divides: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The starts and ends of the units of a text. divides: [characters] whether a token ends after each."""
    in_unit = ~is_blank(codes)
    follows = np.append(in_unit[1:], False)
    ends = in_unit & (divides | ~follows)
    precedes = np.append(False, in_unit[:-1] & ~ends[:-1])
    return np.flatnonzero(in_unit & ~precedes), np.flatnonzero(ends) + 1


class _Paragraph:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._length = 0
        self._units: list[tuple[int, int]] = []
        self._decided: list[tuple[bool, bool, bool]] = []
        self._multiword_tokens: list[tuple[str, Words]] = []

    def add(self, sentence: Sentence) -> None:
        tokens, words = surface_tokens(sentence), iter(sentence.forms)
        for token in tokens:
            own = tuple(islice(words, token.words))
            if len(own) > 1:
                self._multiword_tokens.append((token.form, own))
            parts = token.form.split()
            for number, part in enumerate(parts, 1):
                is_last = number == len(parts)
                self._units.append((self._length, self._length + len(part)))
                ends_sentence = is_last and token is tokens[-1]
                self._decided.append((ends_sentence, not is_last, is_last and token.words > 1))
                space_after = token.space_after or not is_last
                self._text.append(f"{part} " if space_after else part)
                self._length += len(part) + space_after

    def units(self) -> KnownUnits:
        starts, ends = np.array(self._units, np.int64).reshape(-1, 2).T
        decided = np.array(self._decided, bool).reshape(-1, len(DECISIONS))
        return KnownUnits("".join(self._text).rstrip(), starts, ends, decided, self._multiword_tokens)


def _frequent(strings: Sequence[str], least: int) -> Lexicon:
    """The strings that occur at least so often, the most frequent first."""
    counts = Counter(strings)
    frequent = [each for each in counts if counts[each] >= least]
    return Lexicon(sorted(frequent, key=lambda each: (-counts[each], each)))
