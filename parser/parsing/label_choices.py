"""Which labels the arc to a word may have, if its label or its head is given.

A word whose head is given gets no label of lifted words, which would be moved from its head after parsing.
One whose label alone is given may be lifted: it gets the label back when it is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parser.treebank.columns import BLANK
from parser.treebank.labels import MARK
from parser.treebank.sentence import NO_HEAD
from parser.treebank.vocabulary import Vocabulary

ANY_LABEL, UNLIFTED = 0, 1
"""Rows of `LabelChoices.table`. After them are two for each label: that label alone, and that label or one of
lifted words that becomes it."""
OF_LABELS = 2


@dataclass(frozen=True)
class LabelChoices:
    strings: Sequence[str]
    """All labels, of number 1 first."""
    word_labels: frozenset[int]
    root_labels: frozenset[int]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> LabelChoices:
        return cls(vocabulary.labels.strings, vocabulary.word_labels, vocabulary.root_labels)

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """Of each label without mark the numbers of itself, if there is one, and of its lifted forms."""
        found: dict[str, list[int]] = {}
        for number, label in enumerate(self.strings, 1):
            found.setdefault(label.partition(MARK)[0], []).append(number)
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: place for place, label in enumerate(self.strings, 1)}

    @cached_property
    def table(self) -> Tensor:
        """[rows, labels] bool: which labels arcs may have."""
        plain = torch.tensor([MARK not in label for label in ("", *self.strings)])
        table = torch.zeros(OF_LABELS + 2 * len(plain), len(plain), dtype=torch.bool)
        table[ANY_LABEL], table[UNLIFTED] = True, plain
        for number, label in enumerate(self.strings, 1):
            table[OF_LABELS + 2 * number, number] = True
            table[OF_LABELS + 2 * number + 1, self._numbers[label.partition(MARK)[0]]] = True
        return table

    @staticmethod
    def exact_label(row: int) -> int:
        """The number of the label that a row has alone; 0 for other rows."""
        return (row - OF_LABELS) // 2 if row >= OF_LABELS and row % 2 == 0 else 0

    def row(self, head: int, label: str) -> int:
        """Of a word. head: the given one, or NO_HEAD. label: the given one, which fits, or `_`."""
        if label == BLANK:
            return ANY_LABEL if head == NO_HEAD else UNLIFTED
        if head == NO_HEAD:
            return OF_LABELS + 2 * self._numbers[label][0] + 1
        return OF_LABELS + 2 * self._places[label]

    def of_words(self, label: str) -> bool:
        """Whether arcs from words may have it, or a lifted form of it."""
        return not self.word_labels.isdisjoint(self._numbers.get(label, ()))

    def of_root(self, label: str) -> bool:
        """Whether the arc from ROOT may have it."""
        return self._places.get(label) in self.root_labels

    def is_of_root_alone(self, label: str) -> bool:
        return self.of_root(label) and not self.of_words(label)

    def fits(self, head: int, label: str) -> bool:
        """Whether the arc from that head, or NO_HEAD for any, may have it."""
        if head == NO_HEAD:
            return self.of_words(label) or self.of_root(label)
        return self.of_root(label) if head == 0 else self._places.get(label) in self.word_labels

    def known(self, of_root: bool) -> set[str]:
        """The labels without marks of arcs from ROOT, or from words."""
        numbers = self.root_labels if of_root else self.word_labels
        return {self.strings[number - 1].partition(MARK)[0] for number in numbers}
