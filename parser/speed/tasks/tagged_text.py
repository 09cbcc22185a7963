"""Sentences with a label for each word. Each line is a sentence of `word|label`, separated by spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parser.system.files import utf8_lines

UNKNOWN = 0
"""The number of words and characters that are not in a vocabulary."""


class TaggedWord(NamedTuple):
    word: str
    label: str


def read_tagged_text(path: Path) -> list[list[TaggedWord]]:
    """Read the sentences of a file. Raises ValueError, with the line, for a word without a label."""
    sentences = []
    for number, line in enumerate(utf8_lines(path), start=1):
        words = []
        for token in line.split(" ") if line else ():
            word, bar, label = token.rpartition("|")  # a word can contain a |
            if not (bar and word and label):
                raise ValueError(f"{path}:{number}: {token!r} is not a word, |, and its label")
            words.append(TaggedWord(word, label))
        if words:
            sentences.append(words)
    if not sentences:
        raise ValueError(f"{path}: no sentences")
    return sentences


def numbered(items: Iterable[str], least: int = 1) -> dict[str, int]:
    """Numbers from 1 on for the items that occur at least `least` times, in order of first occurrence."""
    counts = Counter(items)
    frequent = (item for item, count in counts.items() if count >= least)
    return {item: number for number, item in enumerate(frequent, start=UNKNOWN + 1)}


@dataclass(frozen=True)
class TaggedSentence:
    """The numbers of words and labels.

    spellings: by position, the characters of each word that is read by characters, between two boundaries.
    """

    words: list[int]
    labels: list[int]
    spellings: dict[int, list[int]]


@dataclass(frozen=True)
class TagVocabulary:
    """Numbers of words and characters, from 1 on, and of labels, from 0 on."""

    words: dict[str, int]
    characters: dict[str, int]
    labels: dict[str, int]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[TaggedWord]], rare: int) -> TagVocabulary:
        """Number the words of sentences. rare: words that occur less often are unknown."""
        words = [word for sentence in sentences for word in sentence]
        found = dict.fromkeys(word.label for word in words)
        return cls(
            numbered((word.word for word in words), rare),
            numbered(character for word in words for character in word.word),
            {label: number for number, label in enumerate(found)},
        )

    def number(self, sentence: Sequence[TaggedWord], spell: bool) -> TaggedSentence:
        """spell: read unknown words by their characters. Unknown labels are -1."""
        boundary = len(self.characters) + 1
        return TaggedSentence(
            [self.words.get(word.word, UNKNOWN) for word in sentence],
            [self.labels.get(word.label, -1) for word in sentence],
            {
                place: [boundary, *(self.characters.get(own, UNKNOWN) for own in word.word), boundary]
                for place, word in enumerate(sentence)
                if spell and word.word not in self.words
            },
        )
