"""The words of sentences as numbers, ready to be looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.treebank.ragged import Ragged


@dataclass(frozen=True)
class Tokens:
    """A row of numbers for each word.

    A column whose strings are read in parts, as characters, says which string of `parts` each word has: each
    distinct string is there once.
    """

    numbers: Ragged
    """[words, columns]"""
    parts: Mapping[int, Ragged] = field(default_factory=dict)
    """For the columns that are read in parts, the numbers of the parts of each string [strings]."""

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.numbers)

    @property
    def values(self) -> Tensor:
        """[words, columns]"""
        return self.numbers.values

    @property
    def lengths(self) -> Tensor:
        """[sentences] In words; on the host wherever the rest is."""
        return self.numbers.lengths

    @property
    def words(self) -> int:
        return len(self.numbers.values)

    def select(self, sentences: Tensor) -> Tokens:
        """The sentences [selected], in that order, with those strings alone that they have."""
        numbers = self.numbers.select(sentences)
        if not self.parts:
            return Tokens(numbers)
        values, parts = numbers.values.clone(), {}
        for column, strings in self.parts.items():
            found, values[:, column] = values[:, column].unique(return_inverse=True)
            parts[column] = strings.select(found)
        return Tokens(Ragged(values, numbers.lengths), parts)

    def to(self, device: torch.device) -> Tokens:
        parts = {
            column: Ragged(to_device(strings.values, device), to_device(strings.lengths, device))
            for column, strings in self.parts.items()
        }
        return Tokens(Ragged(to_device(self.values, device), self.lengths), parts)
