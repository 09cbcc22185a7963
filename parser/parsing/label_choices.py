"""The labels that the arc to a word can have if its label or its head is given.

A word whose head is given gets no label of lifted words, which would move it to another head after parsing.
A word whose label alone is given can be lifted: it gets the label back when it is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parser.treebank.sentence import BLANK, MARK, NO_HEAD
from parser.treebank.vocabulary import Vocabulary

ANY_LABEL, UNLIFTED = 0, 1
"""Rows of `LabelChoices.table`. Two rows for each label follow: that label alone, and that label or one of
lifted words that becomes it."""
OF_LABELS = 2


@dataclass(frozen=True)
class LabelChoices:
    strings: Sequence[str]
    """All labels, starting with number 1."""
    word_labels: frozenset[int]
    root_labels: frozenset[int]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> LabelChoices:
        return cls(vocabulary.labels.strings, vocabulary.word_labels, vocabulary.root_labels)

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """For each label without mark, its own number, if it has one, and those of its lifted forms."""
        found: dict[str, list[int]] = {}
        for number, label in enumerate(self.strings, 1):
            found.setdefault(label.partition(MARK)[0], []).append(number)
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: place for place, label in enumerate(self.strings, 1)}

    @cached_property
    def table(self) -> Tensor:
        """[rows, labels] bool: which labels arcs can have."""
        plain = torch.tensor([MARK not in label for label in ("", *self.strings)])
        table = torch.zeros(OF_LABELS + 2 * len(plain), len(plain), dtype=torch.bool)
        table[ANY_LABEL], table[UNLIFTED] = True, plain
        for number, label in enumerate(self.strings, 1):
            table[OF_LABELS + 2 * number, number] = True
            table[OF_LABELS + 2 * number + 1, self._numbers[label.partition(MARK)[0]]] = True
        return table

    @staticmethod
    def exact_label(row: int) -> int:
        """The number of the only label of a row; 0 for rows with several."""
        return (row - OF_LABELS) // 2 if row >= OF_LABELS and row % 2 == 0 else 0

    def row(self, head: int, label: str) -> int:
        """The row of a word. head: the given head, or NO_HEAD. label: the given label, which fits, or `_`."""
        if label == BLANK:
            return ANY_LABEL if head == NO_HEAD else UNLIFTED
        if head == NO_HEAD:
            return OF_LABELS + 2 * self._numbers[label][0] + 1
        return OF_LABELS + 2 * self._places[label]

    def of_words(self, label: str) -> bool:
        """Whether arcs from words can have the label or a lifted form of it."""
        return not self.word_labels.isdisjoint(self._numbers.get(label, ()))

    def of_root(self, label: str) -> bool:
        """Whether the arc from ROOT can have the label."""
        return self._places.get(label) in self.root_labels

    def is_of_root_alone(self, label: str) -> bool:
        return self.of_root(label) and not self.of_words(label)

    def fits(self, head: int, label: str) -> bool:
        """Whether the arc from a head, or from any head for NO_HEAD, can have the label."""
        if head == NO_HEAD:
            return self.of_words(label) or self.of_root(label)
        return self.of_root(label) if head == 0 else self._places.get(label) in self.word_labels

    def known(self, of_root: bool) -> set[str]:
        """The labels of arcs from ROOT, or from words, without marks."""
        numbers = self.root_labels if of_root else self.word_labels
        return {self.strings[number - 1].partition(MARK)[0] for number in numbers}
