"""Whether an input has what a model reads: without its tags, or with others, it writes nonsense."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import COLUMNS, PARTS, UNKNOWN, Lexicon, Vocabulary

BLANK = "_"
MUCH = 0.5
"""A share of blank values above which something is said, if dev has fewer."""
FAR_ABOVE = 0.2
"""More than dev's by so much is far above, and by one over the root of their number: few differ by chance."""
FEWEST = 50
"""Values that are judged by whether they are known: those of one sentence are often strange together."""
WORDS_BETWEEN_CHECKS = 25_000
NAMES = {"form": "FORM", "lemma": "LEMMA", "upos": "UPOS", "xpos": "XPOS", "feats": "FEATS"}
"""What is looked at, and what users call it."""


class ColumnShares(BaseModel):
    """Of a column's values."""

    model_config = ConfigDict(strict=True, frozen=True)

    blank: float = Field(ge=0, le=1)
    """That are "_"."""
    unknown: float = Field(ge=0, le=1)
    """Of the others, those that training never saw, or a part of them."""


_AS_JSON = TypeAdapter(dict[str, ColumnShares])


def as_json(shares: Mapping[str, ColumnShares]) -> str:
    return json.dumps({name: own.model_dump() for name, own in shares.items()}, indent=2) + "\n"


def from_json(text: str) -> dict[str, ColumnShares]:
    """Raises ValueError."""
    return _AS_JSON.validate_json(text)


@dataclass
class Counts:
    """Of a column's values."""

    values: int = 0
    blank: int = 0
    unknown: int = 0

    def add(self, strings: Iterable[str], name: str, lexicon: Lexicon) -> None:
        for string, count in Counter(strings).items():
            self.values += count
            if string == BLANK:
                self.blank += count
            elif UNKNOWN in (lexicon.number(part) for part in PARTS.get(name, _whole)(string)):
                self.unknown += count

    @property
    def shares(self) -> ColumnShares:
        return ColumnShares(
            blank=self.blank / max(1, self.values), unknown=self.unknown / max(1, self.values - self.blank)
        )


def _whole(string: str) -> tuple[str]:
    return (string,)


def column_shares(
    vocabulary: Vocabulary, columns: Iterable[str], sentences: Sequence[Sentence]
) -> dict[str, ColumnShares]:
    """columns: those that a network reads."""
    counts = _counts(columns)
    _add(counts, vocabulary, sentences)
    return {name: own.shares for name, own in counts.items()}


class InputColumnCheck:
    """Over the columns of sentences that pass: warns, once of each, if they are not what the model knows."""

    def __init__(self, vocabulary: Vocabulary, columns: Iterable[str], dev: Mapping[str, ColumnShares]):
        """columns: those that the network reads; dev: the shares in the dev treebank, or nothing."""
        self._vocabulary, self._dev = vocabulary, dev
        self._counts = _counts(columns)
        self._told: set[str] = set()

    def over(self, sentences: Iterable[Sentence], warn: Callable[[str], None]) -> Iterator[Sentence]:
        """The sentences, one after the other."""
        passed: list[Sentence] = []
        words = 0
        for sentence in sentences:
            yield sentence
            passed.append(sentence)
            words += len(sentence)
            if words >= WORDS_BETWEEN_CHECKS:
                self._look(passed, warn)
                passed, words = [], 0
        self._look(passed, warn)

    def _look(self, sentences: Sequence[Sentence], warn: Callable[[str], None]) -> None:
        """With these sentences added to all before."""
        _add(self._counts, self._vocabulary, sentences)
        for name, counts in self._counts.items():
            message = _message(NAMES[name], counts, self._dev.get(name))
            if message and name not in self._told:
                self._told.add(name)
                warn(message)


def _message(name: str, counts: Counts, dev: ColumnShares | None) -> str | None:
    """What to say of a column."""
    now, known = counts.shares, counts.values - counts.blank
    chance = _far_above(counts.values) if dev and dev.blank else FAR_ABOVE
    if now.blank > max(MUCH, dev.blank + chance if dev else 0.0):
        usual = f" ({dev.blank:.0%} of the dev treebank)" if dev else ""
        return (
            f"{name} is blank for {now.blank:.0%} of the words{usual}, and this model reads it: expect bad "
            "trees. Fill the column, or take a model that does not read it"
        )
    if dev and known >= FEWEST and now.unknown > dev.unknown + _far_above(known):
        return (
            f"{name}: training never saw {now.unknown:.0%} of the values ({dev.unknown:.0%} of the dev "
            "treebank): expect bad trees. The model wants the language and the kind of tags of its training"
        )
    return None


def _far_above(values: int) -> float:
    """How much more than dev's a share is that chance does not explain."""
    return FAR_ABOVE + max(1, values) ** -0.5


def _counts(columns: Iterable[str]) -> dict[str, Counts]:
    return {name: Counts() for name in columns if name in NAMES}


def _add(counts: Mapping[str, Counts], vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> None:
    for name, own in counts.items():
        strings = (string for sentence in sentences for string in COLUMNS[name](sentence))
        own.add(strings, name, vocabulary.columns[name])
