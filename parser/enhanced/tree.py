"""A tree and the columns that decide which enhanced dependencies it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from parser.treebank.sentence import BLANK, Sentence

ROOT = 0
LONGEST_KEPT = 200
"""Longest FEATS that are kept in memory with their values."""
FIXED = "fixed"
"""The label of the other words of a fixed expression, such as `because of`."""


@dataclass(frozen=True)
class AnnotatedTree:
    """Words have numbers from 1. All columns begin with ROOT, which has the label and the UPOS `ROOT`."""

    forms: Sequence[str]
    """In lower case."""
    lemmas: Sequence[str]
    """In lower case; forms where there is no lemma."""
    upos: Sequence[str]
    feats: Sequence[str]
    heads: Sequence[int]
    labels: Sequence[str]

    @classmethod
    def of(
        cls,
        sentence: Sentence,
        heads: Sequence[int],
        labels: Sequence[str],
        tags: Mapping[str, Sequence[str]] | None = None,
    ) -> AnnotatedTree:
        """tags: predicted columns by name, in place of those of the sentence."""
        tags = tags or {}
        forms = [form.lower() for form in sentence.forms]
        lemmas = [
            form if lemma == BLANK else lemma.lower()
            for form, lemma in zip(forms, tags.get("lemma", sentence.lemmas), strict=True)
        ]
        upos, feats = tags.get("upos", sentence.upos), tags.get("feats", sentence.feats)
        return cls(
            ["", *forms], ["", *lemmas], ["ROOT", *upos], [BLANK, *feats], [ROOT, *heads], ["ROOT", *labels]
        )

    def __len__(self) -> int:
        """The number of words."""
        return len(self.forms) - 1

    @cached_property
    def children(self) -> list[list[int]]:
        """The dependents of ROOT and of each word, in order."""
        children: list[list[int]] = [[] for _ in self.heads]
        for word in range(1, len(self.heads)):
            children[self.heads[word]].append(word)
        return children

    @cached_property
    def relations(self) -> list[set[str]]:
        """The labels of the dependents of ROOT and of each word."""
        return [{self.labels[child] for child in children} for children in self.children]

    def ancestors(self, word: int) -> Iterator[int]:
        """The word itself, its head, and so on, without ROOT."""
        while word != ROOT:
            yield word
            word = self.heads[word]

    def feature(self, word: int, name: str) -> str:
        """The value of a feature; empty if the word has none."""
        feats = self.feats[word]
        return (_value if len(feats) <= LONGEST_KEPT else _value.__wrapped__)(feats, name)

    def expression(self, word: int, column: Sequence[str]) -> str:
        """The word and those that are fixed to it, joined by `_`, in a column such as `lemmas`."""
        fixed = [column[child] for child in self.children[word] if self.labels[child] == FIXED]
        return "_".join([column[word], *fixed]) if fixed else column[word]


@lru_cache(maxsize=65_536)
def _value(feats: str, name: str) -> str:
    for each in feats.split("|"):
        key, _, value = each.partition("=")
        if key == name:
            return value
    return ""
