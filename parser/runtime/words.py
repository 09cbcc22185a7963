"""Word vectors and tags of sentences: what `TokenEncoder` and `LayersAboveTags` compute, in arrays.

What lies below the first LSTM depends only on the strings of a word: a bounded table keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from parser.networks.settings import NetworkSettings
from parser.runtime.characters import characters_of
from parser.runtime.kernels import Kernels
from parser.runtime.layers import BiLSTM, LinearLayer, softmax
from parser.runtime.reference import Floats, Integers
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import CHARACTERS, TREEBANK, Vocabulary, division_of, strings_of

MAX_KEPT = 16_384
"""Most distinct words whose vectors are kept."""
MAX_KEPT_LENGTH = 1_000
"""Longest word that is kept, in characters of all columns."""
PREFIX = "tokens."
Transform: TypeAlias = Callable[[Sequence[Sentence]], Floats]
"""Gives words the vectors of a transformer, [W, size]."""


class EncodedArrays(NamedTuple):
    """The words of several sentences, one after the other."""

    vectors: Floats
    """[W, size]"""
    tag_scores: Mapping[str, Floats]
    """For each predicted column [W, lexicon] The scores of its values."""
    lengths: Integers
    """[sentences] in words."""


class WordEncoder:
    def __init__(
        self,
        settings: NetworkSettings,
        vocabulary: Vocabulary,
        weights: Mapping[str, Floats],
        kernels: Kernels,
        is_int8: bool,
        transform: Transform | None = None,
    ):
        """weights: of the model's file. is_int8: whether large products round to 8 bits. transform: the
        [W, size] vectors of a transformer."""
        self._vocabulary, self._transform = vocabulary, transform
        self._tables: dict[str, Floats] = {}
        """The embeddings of a column's strings, or of their parts."""
        for name in vocabulary.columns:
            if name != CHARACTERS:
                part = ".parts" if division_of(name) else ""
                self._tables[name] = weights[f"{PREFIX}embeddings.{name}{part}.weight"]
        if settings.characters:
            name = f"{PREFIX}embeddings.{CHARACTERS}"
            self._characters = characters_of(settings.characters, kernels, weights, name)
        self._join = LinearLayer(kernels, weights[f"{PREFIX}join.weight"], weights[f"{PREFIX}join.bias"])
        self._joined_size = settings.token_size
        self._rows: dict[tuple[str, ...], int] = {}
        self._kept = np.empty((0, self._joined_size), np.float32)
        """[kept, token] The vectors of words, by `_rows`."""
        self._lstm = self._above = None
        if settings.sentence_encoder:
            self._lstm = BiLSTM(kernels, weights, f"{PREFIX}sentence_encoder", is_int8)
        names = list(vocabulary.predicted)
        self._columns = np.cumsum([0, *(len(vocabulary.predicted[name]) for name in names)]).tolist()
        if names:
            weight, bias = (
                np.concatenate([weights[f"tags.{name}.{kind}"] for name in names])
                for kind in ("weight", "bias")
            )
            self._tags = LinearLayer(kernels, weight, bias, is_int8)
        if settings.tags.layers_above:
            self._above = BiLSTM(kernels, weights, "layers_above_tags.lstm", is_int8)
            self._tag_embeddings = [
                LinearLayer(kernels, weights[f"layers_above_tags.embeddings.{name}.weight"]) for name in names
            ]

    def __call__(self, sentences: Sequence[Sentence]) -> EncodedArrays:
        lengths = np.array(list(map(len, sentences)), np.int32)
        words = self._read(sentences)
        if self._lstm:
            words = self._lstm(words, lengths)
        scores: dict[str, Floats] = {}
        if self._vocabulary.predicted:
            of_all = self._tags(words)
            for index, name in enumerate(self._vocabulary.predicted):
                scores[name] = of_all[:, self._columns[index] : self._columns[index + 1]]
        if self._above:
            tags = (
                embed(softmax(of_column))
                for of_column, embed in zip(scores.values(), self._tag_embeddings, strict=True)
            )
            words = self._above(np.concatenate([words, *tags], axis=1), lengths)
        return EncodedArrays(words, scores, lengths)

    def _read(self, sentences: Sequence[Sentence]) -> Floats:
        """[W, token] The vectors of words on their own, those of a transformer included."""
        columns = []
        for name in self._vocabulary.columns:
            strings = list(chain.from_iterable(strings_of(sentence, name) for sentence in sentences))
            columns.append(
                [each or self._vocabulary.treebank for each in strings] if name == TREEBANK else strings
            )
        words = list(zip(*columns, strict=True))
        if self._transform:
            return self._joined(words, self._transform(sentences))
        if len(self._rows) > MAX_KEPT:
            self._rows, self._kept = {}, self._kept[:0]
        rows = self._rows
        new = [word for word in dict.fromkeys(words) if word not in rows]
        vectors = self._joined(new, None) if new else self._kept[:0]
        start = len(rows)
        if start + len(new) > len(self._kept):
            room = np.empty((2 * (start + len(new)), self._joined_size), np.float32)
            room[:start] = self._kept[:start]
            self._kept = room
        self._kept[start : start + len(new)] = vectors
        numbered = dict(zip(new, range(start, start + len(new)), strict=True))
        found = self._kept[[rows[word] if word in rows else numbered[word] for word in words]]
        # Long words stay unknown, so that strangers cannot fill the memory.
        if all(sum(map(len, word)) <= MAX_KEPT_LENGTH for word in new):
            rows.update(numbered)  # last, because anything before can be interrupted
        return found

    def _joined(self, words: Sequence[tuple[str, ...]], transformed: Floats | None) -> Floats:
        """[words, token] words: the strings of all columns. transformed: [words, size]."""
        parts = []
        for strings, (name, lexicon) in zip(
            zip(*words, strict=True), self._vocabulary.columns.items(), strict=True
        ):
            divide = division_of(name)
            if name == CHARACTERS:
                parts.append(self._characters([[lexicon.number(part) for part in each] for each in strings]))
            elif divide:
                numbers = [[lexicon.number(part) for part in divide(each)] for each in strings]
                parts.append(np.stack([self._tables[name][of_word].sum(0) for of_word in numbers]))
            else:
                parts.append(self._tables[name][[lexicon.number(each) for each in strings]])
        if transformed is not None:
            parts.append(transformed)
        return np.maximum(self._join(np.concatenate(parts, axis=1)), 0)
