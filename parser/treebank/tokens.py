"""The words of sentences as their numbers, the input of the token encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor

from parser.batching.device import all_to_device
from parser.batching.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import TREEBANK, Vocabulary, division_of, predicted_strings_of, strings_of


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
    """For a transformer: the pieces of each word. The numbers of pieces are always on the host."""
    vectors: Tensor | None = None
    """[words, layers, size] In place of `pieces`: the output of a transformer that is not trained."""

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.numbers)

    @property
    def values(self) -> Tensor:
        """[words, columns] The values of `numbers`."""
        return self.numbers.values

    @property
    def lengths(self) -> Tensor:
        """[sentences] Lengths in words; always on the host."""
        return self.numbers.lengths

    @property
    def words(self) -> int:
        return len(self.numbers.values)

    @property
    def is_flat(self) -> bool:
        """Whether there is nothing but `numbers`, so that sentences can be selected on a device."""
        return not self.parts and self.pieces is None and self.vectors is None

    def select(self, sentences: Tensor) -> Tokens:
        """The given sentences [selected], in this order. `parts` keeps only their strings."""
        words = self.numbers.elements(sentences)
        values, parts = self.values[words], {}
        for column, strings in self.parts.items():
            used, values[:, column] = values[:, column].unique(return_inverse=True)
            parts[column] = strings.select(used)
        return Tokens(
            Ragged(values, self.lengths[sentences]),
            parts,
            pieces=None if self.pieces is None else self.pieces.select(words),
            vectors=None if self.vectors is None else self.vectors[words],
        )

    def distinct(self) -> tuple[Tokens, Tensor]:
        """The distinct words as one sentence, and the number in it of each word [words]. On the host."""
        values = self.values
        number = torch.zeros(len(values), dtype=torch.long)
        for column in values.unbind(1):
            # Numbered anew for each column, so that the products stay small.
            _, number = (number * (int(column.max()) + 1) + column).unique(return_inverse=True)
        first = torch.zeros(int(number.max()) + 1, dtype=torch.long)
        first[number] = torch.arange(len(values))
        return Tokens(Ragged(values[first], torch.tensor([len(first)])), self.parts), number

    def replaced(self, values: Tensor, parts: Mapping[int, Ragged]) -> Tokens:
        """The tokens with other numbers for the same words."""
        return replace(self, numbers=Ragged(values, self.lengths), parts=parts)

    def to(self, device: torch.device) -> Tokens:
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Tokens:
        """The tokens with a function applied to all tensors that a device needs."""
        return Tokens(
            Ragged(function(self.values), self.lengths),
            {column: strings.map(function) for column, strings in self.parts.items()},
            pieces=None if self.pieces is None else Ragged(function(self.pieces.values), self.pieces.lengths),
            vectors=None if self.vectors is None else function(self.vectors),
        )


class WordSource(Protocol):
    """A source of the input of a transformer."""

    def added(self, tokens: Tokens, sentences: Sequence[Sentence]) -> Tokens:
        """The tokens with `pieces` or `vectors` added."""


def encode_tokens(vocabulary: Vocabulary, sentences: Sequence[Sentence], gold: bool = False) -> Tokens:
    """The columns that the parser reads, as integers; if `gold`, followed by those that it predicts."""
    numbers, parts = [], {}
    for column, (name, lexicon) in enumerate(vocabulary.columns.items()):
        strings = [string for sentence in sentences for string in strings_of(sentence, name)]
        if name == TREEBANK:
            strings = [string or vocabulary.treebank for string in strings]
        if divide := division_of(name):
            rows = {string: row for row, string in enumerate(dict.fromkeys(strings))}
            numbers.append([rows[string] for string in strings])
            parts_of = [[lexicon.number(part) for part in divide(string)] for string in rows]
            parts[column] = Ragged(
                _integers(list(chain.from_iterable(parts_of))), _integers(list(map(len, parts_of)))
            )
        else:
            numbers.append([lexicon.number(string) for string in strings])
    for name, lexicon in vocabulary.predicted.items() if gold else ():
        strings = [string for sentence in sentences for string in predicted_strings_of(sentence, name)]
        numbers.append([lexicon.number(string) for string in strings])
    tokens = Tokens(Ragged(_integers(numbers).T.contiguous(), _lengths(sentences)), parts)
    return vocabulary.for_transformer.added(tokens, sentences) if vocabulary.for_transformer else tokens


def encode_heads(sentences: Sequence[Sentence]) -> Ragged:
    """The heads of all words. values: [words], 0 for ROOT, NO_HEAD for unknown heads."""
    return Ragged(_integers([h for s in sentences for h in s.heads]), _lengths(sentences))


def encode_labels(vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Ragged:
    """The labels of all words. values: [words], 0 for `_` and for labels not seen in training."""
    number = vocabulary.labels.number
    return Ragged(_integers([number(label) for s in sentences for label in s.labels]), _lengths(sentences))


def _lengths(sentences: Sequence[Sentence]) -> Tensor:
    return _integers([len(sentence) for sentence in sentences])


def _integers(numbers: list[int] | list[list[int]]) -> Tensor:
    """A tensor of integers even if there are no numbers."""
    return torch.tensor(numbers, dtype=torch.long)
