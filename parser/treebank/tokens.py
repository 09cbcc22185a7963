"""The words of sentences as integers, the input of the token encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from parser.batching.ragged import Ragged
from parser.batching.transfer import all_to_device


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
    pieces: Ragged | None = None
    """For a transformer: the pieces of each word; their numbers of pieces are always on the host."""
    vectors: Tensor | None = None
    """[words, layers, size] In the place of `pieces`: what a transformer makes of them that is not
    trained."""

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
        words = self.numbers.elements(sentences)
        values, parts = self.values[words], {}
        for column, strings in self.parts.items():
            found, values[:, column] = values[:, column].unique(return_inverse=True)
            parts[column] = strings.select(found)
        return Tokens(
            Ragged(values, self.lengths[sentences]),
            parts,
            pieces=None if self.pieces is None else self.pieces.select(words),
            vectors=None if self.vectors is None else self.vectors[words],
        )

    def replaced(self, values: Tensor, parts: Mapping[int, Ragged]) -> Tokens:
        """With other numbers for the same words."""
        return replace(self, numbers=Ragged(values, self.lengths), parts=parts)

    def to(self, device: torch.device) -> Tokens:
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tokens:
        """With a function applied to all tensors that a device needs."""
        parts = {
            column: Ragged(function(strings.values), function(strings.lengths))
            for column, strings in self.parts.items()
        }
        return Tokens(
            Ragged(function(self.values), self.lengths),
            parts,
            pieces=None if self.pieces is None else Ragged(function(self.pieces.values), self.pieces.lengths),
            vectors=None if self.vectors is None else function(self.vectors),
        )
