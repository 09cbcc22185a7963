"""The columns of CoNLL-U, and which of them a parser can read of each word, or predict.

To let parsers read or predict another one, add it to `WORD_COLUMNS`, and a field for it to `Sentence` and to
`Tree` and `Tags` of `parser/api/tree.py`. The settings, the vocabulary, the network and written files follow.
The service (`typed_messages.py`), spaCy's component and the scores name their columns themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

TITLES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, LABEL, DEPS, MISC = range(len(TITLES))
"""The places of the columns in a line."""
BLANK = "_"
"""What an empty column has."""
NO_SPACE = "SpaceAfter=No"
"""In MISC of a token that no space follows."""
BLANK_COLUMNS = "\t".join([BLANK] * (MISC - LEMMA))
"""Those between FORM and MISC, where nothing but the word is known."""
WORD_ID = re.compile(r"[1-9][0-9]{0,8}")
RANGE_ID = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
EMPTY_ID = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
ColumnKind = Literal["word", "tag", "features"]
"""What a column has of each word.

word: one of an open class. Word dropout depends on its frequency; it is predicted as an edit script of the
form. tag: one of a closed class. features: any number, as in "Case=Nom|Number=Sing"; their embeddings are
summed, and they are predicted together, like a tag.
"""


@dataclass(frozen=True)
class WordColumn:
    place: int
    """In a line, from 0."""
    attribute: str
    """The field of a sentence that has the values of its words."""
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
"""By their names in settings and models."""


def annotation_columns() -> dict[str, WordColumn]:
    """Those that a parser may read or predict: all but the forms, which every parser reads."""
    return {name: column for name, column in WORD_COLUMNS.items() if column.place != FORM}
