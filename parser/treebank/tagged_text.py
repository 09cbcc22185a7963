"""Sentences with a label for each word: a sentence a line, `word|label` with blanks between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

UNKNOWN = 0
"""The number of words and characters that are not in a vocabulary."""


class TaggedWord(NamedTuple):
    word: str
    label: str


def read_tagged_text(path: Path) -> list[list[TaggedWord]]:
    """Raises ValueError, with the line, for a word that has no label."""
    sentences = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line:
            sentences.append([_tagged(token, f"{path}:{number}") for token in line.split(" ")])
    return sentences


def _tagged(token: str, place: str) -> TaggedWord:
    word, bar, label = token.rpartition("|")  # a word may hold a | itself
    if not (bar and word and label):
        raise ValueError(f"{place}: {token!r} is not a word, |, and its label")
    return TaggedWord(word, label)


def numbered(items: Iterable[str], least: int = 1) -> dict[str, int]:
    """Numbers from 1 on for all that occur so often at least, in the order in which they first do."""
    counts = Counter(items)
    frequent = (item for item, count in counts.items() if count >= least)
    return {item: number for number, item in enumerate(frequent, start=UNKNOWN + 1)}


def labels_of(sentences: Sequence[Sequence[TaggedWord]]) -> dict[str, int]:
    """Numbers from 0 on."""
    found = dict.fromkeys(word.label for sentence in sentences for word in sentence)
    return {label: number for number, label in enumerate(found)}
