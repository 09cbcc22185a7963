"""How many values of the columns of a treebank are blank or unknown to a model, and the file of such shares.

A model keeps the shares of its dev treebank, as `columns.json`; `unlike_columns` compares those of an input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from parser.treebank.columns import BLANK
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import UNKNOWN, Lexicon, Vocabulary, division_of, strings_of


class ColumnShares(BaseModel):
    """Shares of unusual values in a column."""

    model_config = ConfigDict(strict=True, frozen=True)

    blank: float = Field(ge=0, le=1)
    """Share of the values that are "_"."""
    unknown: float = Field(ge=0, le=1)
    """Share of the other values that do not occur in training, or that have a part which does not."""


_AS_JSON = TypeAdapter(dict[str, ColumnShares])


def shares_as_json(shares: Mapping[str, ColumnShares]) -> str:
    return json.dumps({name: own.model_dump() for name, own in shares.items()}, indent=2) + "\n"


def shares_from_json(text: str) -> dict[str, ColumnShares]:
    """Inverse of `shares_as_json`. Raises ValueError if the text is invalid."""
    return _AS_JSON.validate_json(text)


@dataclass
class Counts:
    """Numbers of values in a column: all, blank and unknown."""

    values: int = 0
    blank: int = 0
    unknown: int = 0

    def add(self, strings: Iterable[str], name: str, lexicon: Lexicon) -> None:
        divide = division_of(name) or _whole
        for string, count in Counter(strings).items():
            self.values += count
            if string == BLANK:
                self.blank += count
            elif UNKNOWN in (lexicon.number(part) for part in divide(string)):
                self.unknown += count

    def merge(self, other: Counts) -> None:
        self.values += other.values
        self.blank += other.blank
        self.unknown += other.unknown

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
    """The shares in all given sentences. columns: the columns that a network reads."""
    return {name: own.shares for name, own in column_counts(vocabulary, columns, sentences).items()}


def column_counts(
    vocabulary: Vocabulary, columns: Iterable[str], sentences: Sequence[Sentence]
) -> dict[str, Counts]:
    """The values in all given sentences, by column. columns: the columns that a network reads."""
    counts = {name: Counts() for name in columns}
    for name, own in counts.items():
        strings = (string for sentence in sentences for string in strings_of(sentence, name))
        own.add(strings, name, vocabulary.columns[name])
    return counts
