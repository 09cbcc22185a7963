"""A sentence of a treebank: the columns of CoNLL-U, its words and lines, and which labels are valid.

To let parsers read or predict another column, add it to `WORD_COLUMNS`, and add a field to `Sentence` and to
`Tree` and `Tags` in `parser/api/tree.py`. The settings, the vocabulary, the network and written files then
include it. The service (`typed_messages.py`), spaCy's component and the scores name their columns themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from parser.system.console import quoted

TITLES = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, LABEL, DEPS, MISC = range(len(TITLES))
"""The positions of the columns in a line."""
BLANK = "_"
"""The value of an empty column."""
NO_SPACE = "SpaceAfter=No"
"""In MISC of a token that is not followed by a space."""
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
    index: int
    """Position in a line, from 0."""
    attribute: str
    """The field of `Sentence` that holds the values."""
    kind: ColumnKind

    @property
    def title(self) -> str:
        return TITLES[self.index]


WORD_COLUMNS = {
    "form": WordColumn(FORM, "forms", "word"),
    "lemma": WordColumn(LEMMA, "lemmas", "word"),
    "upos": WordColumn(UPOS, "upos", "tag"),
    "xpos": WordColumn(XPOS, "xpos", "tag"),
    "feats": WordColumn(FEATS, "feats", "features"),
}
"""The columns by their names in settings and models."""


def is_missing(column: int, value: str, upos: str) -> bool:
    """Whether a predicted value is wanted in a column. upos: the given UPOS of the word.

    `_` means no value; but beside a UPOS, `_` in FEATS means that the word has no features.
    """
    return value == BLANK and (column != FEATS or upos == BLANK)


def annotation_columns() -> dict[str, WordColumn]:
    """The columns that a parser can read or predict: all except the forms, which every parser reads."""
    return {name: column for name, column in WORD_COLUMNS.items() if column.index != FORM}


NO_HEAD = -1


@dataclass(frozen=True, slots=True)
class Sentence:
    """The syntactic words of a sentence, and its lines in the file.

    ROOT has number 0, words have numbers from 1, and all tuples start with word 1. If the tree was not read,
    `heads` are `NO_HEAD` and `labels` are "_".
    """

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    lemmas: tuple[str, ...]
    feats: tuple[str, ...]
    """Morphological features as in the file, such as "Case=Nom|Number=Sing"."""
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    identifier: str
    """The `sent_id` comment, or "#n" for the n-th sentence if there is none."""
    line: int
    """Line number of the first line of the sentence in its file, from 1."""
    lines: tuple[str, ...]
    """All lines as in the file, with their line ends and with the blank lines after the sentence."""
    word_lines: tuple[int, ...]
    """Indices in `lines` of the lines of words, not of comments, multiword tokens and empty nodes."""
    treebank: str = ""
    """The name of the treebank that the sentence is from; empty if it was not read as part of one."""

    @classmethod
    def without_tree(
        cls,
        columns: Mapping[str, tuple[str, ...]],
        identifier: str,
        line: int,
        lines: Sequence[str] = (),
        word_lines: Sequence[int] = (),
    ) -> Sentence:
        """A sentence without a tree. columns: the known columns, by field; all others are blank."""
        blank = (BLANK,) * len(columns["forms"])
        of_words: dict[str, Any] = {column.attribute: blank for column in WORD_COLUMNS.values()}
        return cls(
            **of_words | dict(columns),
            heads=(NO_HEAD,) * len(blank),
            labels=blank,
            identifier=identifier,
            line=line,
            lines=tuple(lines),
            word_lines=tuple(word_lines),
        )

    def __len__(self) -> int:
        return len(self.forms)

    def column(self, name: str) -> tuple[str, ...]:
        """The values of a column. name: see `WORD_COLUMNS`."""
        values: tuple[str, ...] = getattr(self, WORD_COLUMNS[name].attribute)
        return values


MARK = "↑"
"""Separates the label of a lifted word from the label of its original head."""
MAX_LABEL_LENGTH = 1000
"""In characters. So lines stay far below `text_files.MAX_LINE_LENGTH`."""


def label_fault(label: str) -> str | None:
    """Why a label is not valid in a treebank; None if it is valid."""
    if not label or label == "_":
        return "DEPREL is missing"
    if len(label) > MAX_LABEL_LENGTH:
        return f"DEPREL {quoted(label)} has more than {MAX_LABEL_LENGTH:,} characters"
    if not label.isprintable():
        return f"DEPREL {quoted(label)} has a character that cannot be printed"
    if label != label.strip():
        return f"DEPREL {quoted(label)} begins or ends with a blank"
    if MARK in label:
        return f"DEPREL {quoted(label)} has the character {MARK}, which marks lifted words; rename the label"
    return None


def lifted_label_fault(label: str) -> str | None:
    """Like `label_fault`, but for a label of a model, which may be the label of a lifted word."""
    word_label, mark, head_label = label.partition(MARK)
    return label_fault(word_label) or (label_fault(head_label) if mark else None)


def without_subtype(label: str) -> str:
    return label.split(":", 1)[0]
