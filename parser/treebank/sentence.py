"""A sentence of a treebank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parser.treebank.columns import BLANK, WORD_COLUMNS

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
        of_words: dict[str, Any] = {own.attribute: blank for own in WORD_COLUMNS.values()} | dict(columns)
        return cls(
            **of_words,
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
