"""Vectors of strings from their characters: `CharacterEncoder` and `CharacterLSTM`, in arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np

from parser.networks.settings import CharacterLSTMSettings, CharacterSettings
from parser.runtime.kernels import Kernels
from parser.runtime.layers import TableBiLSTM
from parser.runtime.reference import Floats
from parser.treebank.vocabulary import UNKNOWN

Strings: TypeAlias = Sequence[Sequence[int]]
"""The numbers of the characters of each string."""


def characters_of(
    settings: CharacterSettings, kernels: Kernels, weights: Mapping[str, Floats], name: str
) -> Callable[[Strings], Floats]:
    """Gives strings their vectors, [strings, size]."""
    if isinstance(settings, CharacterLSTMSettings):
        return LastStates(kernels, weights, name)
    return Convolution(weights, name, settings.widths)


class LastStates:
    """What `CharacterLSTM` computes."""

    def __init__(self, kernels: Kernels, weights: Mapping[str, Floats], name: str):
        embeddings = weights[f"{name}.embedding.weight"]  # [characters, size]
        self._lstm = TableBiLSTM(kernels, weights, f"{name}.lstm", embeddings, is_int8=False)

    def __call__(self, strings: Strings) -> Floats:
        """[strings, size] A string without characters is read as an unknown character."""
        strings = [each or (UNKNOWN,) for each in strings]
        lengths = np.array(list(map(len, strings)), np.int32)
        states = self._lstm(np.array(list(chain.from_iterable(strings))), lengths)
        last, hidden = lengths.cumsum() - 1, self._lstm.hidden
        return np.concatenate([states[last, :hidden], states[last - lengths + 1, hidden:]], axis=1)


class Convolution:
    """What `CharacterEncoder` computes."""

    def __init__(self, weights: Mapping[str, Floats], name: str, widths: Sequence[int]):
        embeddings = weights[f"{name}.characters.weight"]  # [characters + 1, size]
        self._outside = len(embeddings) - 1
        self._widths = []
        for number, width in enumerate(widths):
            products = embeddings @ weights[f"{name}.filters.{number}.weight"].T
            by_place = np.ascontiguousarray(np.stack(np.split(products, width, axis=1)))
            by_place[width // 2] += weights[f"{name}.biases.{number}"]
            self._widths.append(by_place)  # [width, characters + 1, filters]

    def __call__(self, strings: Sequence[Sequence[int]]) -> Floats:
        """[strings, size] strings: the numbers of the characters of each string."""
        strings = [each or (self._outside,) for each in strings]
        lengths = np.array(list(map(len, strings)))
        margin = max(map(len, self._widths))
        # Between strings there are as many characters outside of words as the widest window can reach.
        flat = np.full(int(lengths.sum()) + margin * (len(strings) + 1), self._outside)
        starts = margin * np.arange(1, len(strings) + 1) + lengths.cumsum() - lengths
        where = np.repeat(starts - (lengths.cumsum() - lengths), lengths) + np.arange(lengths.sum())
        flat[where] = list(chain.from_iterable(strings))
        maxima = []
        for by_place in self._widths:
            values = np.zeros((len(where), by_place.shape[2]), np.float32)
            for place, products in enumerate(by_place):
                values += products[flat[where + place - len(by_place) // 2]]
            maxima.append(np.maximum.reduceat(values, lengths.cumsum() - lengths))
        return np.maximum(np.concatenate(maxima, axis=1), 0)
