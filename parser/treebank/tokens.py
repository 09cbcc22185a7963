"""The words of sentences as integers, the input of the token encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from parser.batching.transfer import all_to_device
from parser.treebank.ragged import Ragged


@dataclass(frozen=True)
class Tokens:
    """The columns of each word as integers.

    Most columns hold vocabulary numbers. A column of `parts` (characters, or morphological features) is
    divided further: each distinct string is stored once in `parts`, and the column holds its index there.
    """

    numbers: Ragged
    """[words, columns] Vocabulary numbers, or indices into `parts`."""
    parts: Mapping[int, Ragged] = field(default_factory=dict)
    """For each divided column, by its index: the vocabulary numbers of the parts of each distinct string."""

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.numbers)

    @property
    def values(self) -> Tensor:
        """[words, columns]"""
        return self.numbers.values

    @property
    def lengths(self) -> Tensor:
        """[sentences] Lengths in words; always on the host."""
        return self.numbers.lengths

    @property
    def words(self) -> int:
        return len(self.numbers.values)

    def select(self, sentences: Tensor) -> Tokens:
        """The given sentences [selected], in this order. `parts` keeps only their strings."""
        numbers = self.numbers.select(sentences)
        if not self.parts:
            return Tokens(numbers)
        values, parts = numbers.values.clone(), {}
        for column, strings in self.parts.items():
            found, values[:, column] = values[:, column].unique(return_inverse=True)
            parts[column] = strings.select(found)
        return Tokens(Ragged(values, numbers.lengths), parts)

    def to(self, device: torch.device) -> Tokens:
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tokens:
        """With a function applied to all tensors that a device needs."""
        parts = {
            column: Ragged(function(strings.values), function(strings.lengths))
            for column, strings in self.parts.items()
        }
        return Tokens(Ragged(function(self.values), self.lengths), parts)
