"""The columns of CoNLL-U, and which of them a parser can read or predict for each word.

To let parsers read or predict another column, add it to `WORD_COLUMNS`, and add a field to `Sentence` and to
`Tree` and `Tags` in `parser/api/tree.py`. The settings, the vocabulary, the network and written files then
include it. The service (`typed_messages.py`), spaCy's component and the scores name their columns themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

TITLES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, LABEL, DEPS, MISC = range(len(TITLES))
"""The positions of the columns in a line."""
BLANK = "_"
"""The value of an empty column."""
NO_SPACE = "SpaceAfter=No"
"""In MISC of a token that is not followed by a space."""
BLANK_COLUMNS = "\t".join([BLANK] * (MISC - LEMMA))
"""The columns between FORM and MISC if nothing but the form is known."""
WORD_ID = re.compile(r"[1-9][0-9]{0,8}")
RANGE_ID = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
EMPTY_ID = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
ColumnKind = Literal["word", "tag", "features"]
"""The kind of values in a column.

word: a value from an open class. Word dropout depends on its frequency, and it is predicted as an edit script
of the form. tag: a value from a closed class. features: any number of values, as in "Case=Nom|Number=Sing".
Their embeddings are summed, and they are predicted together, like a tag.
"""


@dataclass(frozen=True)
class WordColumn:
    place: int
    """Position in a line, from 0."""
    attribute: str
    """The field of `Sentence` that holds the values."""
    kind: ColumnKind

    @property
    def title(self) -> str:
        return TITLES[self.place]


WORD_COLUMNS = {
    "form": WordColumn(FORM, "forms", "word"),
    "lemma": WordColumn(LEMMA, "lemmas", "word"),
    "upos": WordColumn(UPOS, "upos", "tag"),
    "xpos": WordColumn(XPOS, "xpos", "tag"),
    "feats": WordColumn(FEATS, "feats", "features"),
}
"""The columns by their names in settings and models."""


def is_missing(place: int, value: str, upos: str) -> bool:
    """Whether a predicted value is wanted in a column. upos: the given UPOS of the word.

    `_` means no value; but beside a UPOS, `_` in FEATS means that the word has no features.
    """
    return value == BLANK and (place != FEATS or upos == BLANK)


def annotation_columns() -> dict[str, WordColumn]:
    """The columns that a parser can read or predict: all except the forms, which every parser reads."""
    return {name: column for name, column in WORD_COLUMNS.items() if column.place != FORM}
