"""Scorers of arcs and of labels, as in parser/networks/scorers.py, in arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.runtime.kernels import Kernels
from parser.runtime.layers import LinearLayer
from parser.runtime.reference import Floats, Integers


class SecondOpinion(NamedTuple):
    """The opinion of the scorers on a sentence of n words."""

    log_probabilities: Floats
    """[n, n + 1] Those of the heads of each word, the first of which is ROOT."""
    greatest: Floats
    """[n] The greatest log probability of each word."""
    as_heads: Floats
    """[n + 1, size] What ROOT and each word add to the hidden layer of the scorer of labels as a head."""
    as_dependents: Floats
    """[n, size] What each word adds as a dependent."""

    def among(self, possible: NDArray[np.bool_]) -> SecondOpinion:
        """The opinion if only some heads are possible; their probabilities sum to 1 for each word.

        possible: [n, n + 1] bool
        """
        return self.with_logs(np.where(possible, self.log_probabilities, np.float32(-np.inf)))

    def with_logs(self, logs: Floats) -> SecondOpinion:
        """The opinion with other log probabilities [n, n + 1], which need not sum to 1 yet."""
        logs = logs - np.logaddexp.reduce(logs, 1, keepdims=True)
        return self._replace(log_probabilities=logs, greatest=logs.max(1))

    def of_arcs(self, heads: Sequence[int]) -> Floats:
        """[n] The log probabilities of the arcs from `heads` [n]."""
        return self.log_probabilities[np.arange(len(heads)), heads]


class HeadScorer:
    def __init__(self, weights: Mapping[str, Floats], kernels: Kernels, is_int8: bool):
        """weights: of the model's file."""
        names = ("arcs.head", "arcs.dependent", "labels.head", "labels.dependent")
        matrices = [weights[f"{name}.weight"] for name in names]
        biases = [weights.get(f"{name}.bias", np.zeros(len(matrices[0]), np.float32)) for name in names]
        self._project = LinearLayer(kernels, np.concatenate(matrices), np.concatenate(biases), is_int8)
        self._attend = LinearLayer(
            kernels, weights["arcs.attention.weight"], weights["arcs.attention.bias"], is_int8
        )
        self._root = weights["tokens.root"]
        self._kernels = kernels

    def __call__(self, vectors: Floats, lengths: Integers, longest: int) -> Iterator[SecondOpinion | None]:
        """Yield the opinion on each sentence; None if it is longer than `longest`.

        vectors: [W, token] of all words. lengths: [sentences] in words.
        """
        projected = self._project(np.concatenate([vectors, self._root[None]]))
        heads, dependents, label_heads, label_dependents = np.split(projected, 4, axis=1)
        attended = self._attend(np.maximum(dependents[:-1], 0))
        scores, sums = self._kernels.arcs(np.maximum(heads, 0), attended, lengths, longest)
        greatest = -np.log(sums)
        ends = lengths.cumsum()
        with_root = np.insert(np.arange(len(vectors)), ends - lengths, len(vectors))
        label_heads = label_heads[with_root]
        first = 0
        for number, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            count = end - start
            if count > longest:
                yield None
                continue
            logs = scores[first : first + count * (count + 1)].reshape(count, count + 1)
            first += count * (count + 1)
            logs += greatest[start:end, None]
            of_heads = label_heads[start + number : end + number + 1]
            yield SecondOpinion(logs, greatest[start:end], of_heads, label_dependents[start:end])
