"""Whether the columns of an input resemble those of the dev treebank: shares of blank and of unknown values.

A model that reads tags gives bad trees for an input without tags or with those of another tag set. So it
stores the shares of its dev treebank in `columns.json`. A tokenizer and a tagger guess words with characters
that training never saw, so these are named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from parser.system.console import counted
from parser.treebank.sentence import BLANK, WORD_COLUMNS, Sentence
from parser.treebank.vocabulary import UNKNOWN, Lexicon, division_of, strings_of

MAX_BLANK = 0.5
"""Share of blank values that is accepted whatever the share in the dev treebank."""
MAX_EXCESS = 0.2
"""Accepted excess over the share in the dev treebank; see `_max_excess`."""
MIN_KNOWN_VALUES = 200
"""Number of values needed to judge the share of unknown ones. Those of a few sentences vary too much: a
short text repeats its own rare words."""
WORDS_BETWEEN_CHECKS = 25_000
FORMS = "form"
AnySentence = TypeVar("AnySentence", Sentence, Sentence | None)
SHOWN_CHARACTERS = 10
"""Maximum number of unseen characters that are named."""


class ColumnShares(BaseModel):
    """Shares of unusual values in a column."""

    model_config = ConfigDict(strict=True, frozen=True)

    blank: float = Field(ge=0, le=1)
    """Share of the values that are "_"."""
    unknown: float = Field(ge=0, le=1)
    """Share of the other values that do not occur in training, or that have a part that does not."""


_AS_JSON = TypeAdapter(dict[str, ColumnShares])


def shares_as_json(shares: Mapping[str, ColumnShares]) -> str:
    return json.dumps({name: share.model_dump() for name, share in shares.items()}, indent=2) + "\n"


def shares_from_json(text: str) -> dict[str, ColumnShares]:
    """Inverse of `shares_as_json`. Raises ValueError if the text is invalid."""
    return _AS_JSON.validate_json(text)


@dataclass
class Counts:
    """Numbers of values in a column: all, blank and unknown."""

    values: int = 0
    blank: int = 0
    unknown: int = 0
    unseen: dict[str, int] = field(default_factory=dict)
    """For forms: the characters that occur in no form of training, and in how many words."""

    def add(self, strings: Iterable[str], name: str, lexicon: Lexicon) -> None:
        divide = division_of(name) or (lambda string: (string,))
        for string, count in Counter(strings).items():
            self.values += count
            if string == BLANK:
                self.blank += count
            elif UNKNOWN in (lexicon.number(part) for part in divide(string)):
                self.unknown += count
                if name == FORMS:
                    self._add_unseen({one: count for one in string if one not in lexicon.characters})

    def merge(self, other: Counts) -> None:
        self.values += other.values
        self.blank += other.blank
        self.unknown += other.unknown
        self._add_unseen(other.unseen)

    def _add_unseen(self, characters: Mapping[str, int]) -> None:
        for character, count in characters.items():
            self.unseen[character] = self.unseen.get(character, 0) + count

    @property
    def shares(self) -> ColumnShares:
        return ColumnShares(
            blank=self.blank / max(1, self.values), unknown=self.unknown / max(1, self.values - self.blank)
        )


def column_shares(lexicons: Mapping[str, Lexicon], sentences: Sequence[Sentence]) -> dict[str, ColumnShares]:
    """The shares in all given sentences. lexicons: those of the columns that a network reads."""
    return {name: counts.shares for name, counts in column_counts(lexicons, sentences).items()}


def column_counts(lexicons: Mapping[str, Lexicon], sentences: Sequence[Sentence]) -> dict[str, Counts]:
    """The counts of values in all given sentences, by column. lexicons: see `column_shares`."""
    by_column = {name: Counts() for name in lexicons}
    for name, counts in by_column.items():
        strings = (string for sentence in sentences for string in strings_of(sentence, name))
        counts.add(strings, name, lexicons[name])
    return by_column


class InputColumnCheck:
    """Checks the columns of a stream of sentences. Warns at most once for each column, and names each unseen
    character once.
    """

    def __init__(
        self, lexicons: Mapping[str, Lexicon], dev: Mapping[str, ColumnShares], is_text: bool = False
    ):
        """lexicons: see `column_shares`. dev: shares in the dev treebank; can be empty. is_text: whether the
        sentences are from a text, so that unseen characters are named.
        """
        self._lexicons, self._dev, self._is_text = lexicons, dev, is_text
        self._named: set[str] = set()
        self._counts = {name: Counts() for name in lexicons}
        self._warned: set[str] = set()

    def check(self, sentences: Iterable[AnySentence], warn: Callable[[str], None]) -> Iterator[AnySentence]:
        """Yield all items unchanged, including None, and call `warn` with messages about the sentences."""
        passed: list[Sentence] = []
        words = 0
        for sentence in sentences:
            yield sentence
            if sentence is None:
                continue
            passed.append(sentence)
            words += len(sentence)
            if words >= WORDS_BETWEEN_CHECKS:
                self.add(column_counts(self._lexicons, passed), warn)
                passed, words = [], 0
        self.add(column_counts(self._lexicons, passed), warn)

    def add(self, counts_of_some: Mapping[str, Counts], warn: Callable[[str], None]) -> None:
        """Add the counts of some sentences, see `column_counts`, and check the shares."""
        for name, counts in self._counts.items():
            counts.merge(counts_of_some[name])
            message = _message(WORD_COLUMNS[name].title, counts, self._dev.get(name))
            if message and name not in self._warned:
                self._warned.add(name)
                warn(message)
        if self._is_text and FORMS in self._counts:
            self._name_unseen(self._counts[FORMS].unseen, warn)

    def _name_unseen(self, unseen: Mapping[str, int], warn: Callable[[str], None]) -> None:
        new = sorted(unseen.keys() - self._named, key=lambda one: (-unseen[one], one))
        shown = new[: SHOWN_CHARACTERS - len(self._named)]
        if shown:
            named = ", ".join(f"{one} (U+{ord(one):04X}, in {counted(unseen[one], 'word')})" for one in shown)
            more = f" and {len(new) - len(shown):,} more" if len(new) > len(shown) else ""
            warn(
                f"characters that training never saw: {named}{more}. Words with them may be divided and "
                "tagged wrongly; if the treebank writes others, such as other quotation marks, use those"
            )
            self._named.update(shown)


def _message(name: str, counts: Counts, dev: ColumnShares | None) -> str | None:
    """The warning for a column; None if there is nothing unusual."""
    shares, known = counts.shares, counts.values - counts.blank
    excess = _max_excess(counts.values) if dev and dev.blank else MAX_EXCESS
    if shares.blank > max(MAX_BLANK, dev.blank + excess if dev else 0.0):
        usual = f" ({dev.blank:.0%} of the dev treebank)" if dev else ""
        return (
            f"{name} is blank for {shares.blank:.0%} of the words{usual}, and this model reads it: expect "
            "bad trees. Fill the column, or use a model that does not read it"
        )
    if dev and known >= MIN_KNOWN_VALUES and shares.unknown > dev.unknown + _max_excess(known):
        return (
            f"{name}: {shares.unknown:.0%} of the values do not occur in training ({dev.unknown:.0%} in the "
            "dev treebank): expect bad trees. Use the language and the tag set that the model was trained on"
        )
    return None


def _max_excess(values: int) -> float:
    """The excess over dev that is accepted, with 1 / sqrt(n) for the variation of shares among n values."""
    return MAX_EXCESS + max(1, values) ** -0.5
