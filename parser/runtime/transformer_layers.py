"""The layers of a transformer in arrays: embeddings, attention and what follows it.

Windows are computed together, one after the other in rows, without padding. Products of matrices, which take
the time, are those of the kernels, row by row. Attention is computed window by window, by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from parser.networks.transformer.architecture import (
    GELU,
    GELU_BY_TANH,
    MPNET_BUCKETS,
    Architecture,
    Disentangled,
)
from parser.runtime.kernels import Kernels
from parser.runtime.layers import LinearLayer
from parser.runtime.reference import Floats, Integers, exponential, tanh

MOST_SCORES = 1 << 22
"""Most scores of attention that are in memory at once. Those of a long window are computed by parts."""
MPNET_FURTHEST = 128
Weights: TypeAlias = Callable[[str], Floats]
"""Gives the weights of a name."""
AddedScores: TypeAlias = Callable[[Floats, Floats, Integers], Floats]
"""What distances add to the scores of attention. Takes queries [heads, rows, size], keys [heads, n, size] and
their distances [rows, n]; returns [heads or 1, rows, n]."""


class Norm:
    """Each row minus its mean, divided by its standard deviation, times and plus weights."""

    def __init__(self, weights: Weights, shapes: Mapping[str, object], name: str, epsilon: float):
        self._weight, self._epsilon = weights(f"{name}.weight"), np.float32(epsilon)
        self._bias = weights(f"{name}.bias") if f"{name}.bias" in shapes else None

    def __call__(self, rows: Floats) -> Floats:
        """[n, size] rows: [n, size]."""
        centred = rows - rows.mean(1, keepdims=True)
        variance = np.square(centred).mean(1, keepdims=True)
        centred *= 1 / np.sqrt(variance + self._epsilon)
        centred *= self._weight
        if self._bias is not None:
            centred += self._bias
        return centred


class Embeddings:
    """The vectors of pieces and of their places in a window."""

    def __init__(self, architecture: Architecture, weights: Weights, kernels: Kernels):
        kind, shapes = architecture.kind, architecture.shapes
        self._words = weights(f"{kind.words}.weight")  # [pieces, size]
        self._places = self._norm = self._projection = None
        if f"{kind.positions}.weight" in shapes:
            self._places = weights(f"{kind.positions}.weight")  # [positions, size]
        self._of_type: Floats | float = 0.0
        if f"{kind.types}.weight" in shapes:
            self._of_type = weights(f"{kind.types}.weight")[0]  # all pieces are of the first type
        if kind.embedding_norm:
            self._norm = Norm(weights, shapes, kind.embedding_norm, architecture.epsilon)
        if kind.projection in architecture.matrices:
            self._projection = linear(architecture, weights, kernels, [kind.projection])
        self._projects_first = kind.projects_first
        self._counts_from_padding, self._padding = kind.counts_from_padding, architecture.padding

    def __call__(self, pieces: Integers, bounds: Sequence[int]) -> Floats:
        """[n, size] pieces: [n] of all windows. bounds: the first piece of each window, and the end."""
        vectors = self._words[pieces] + self._of_type
        if self._places is not None:
            windows = (self._positions(pieces[start:end]) for start, end in pairwise(bounds))
            vectors += self._places[np.concatenate(list(windows))]
        if self._projection and self._projects_first:
            vectors = self._projection(vectors)
        if self._norm:
            vectors = self._norm(vectors)
        return self._projection(vectors) if self._projection and not self._projects_first else vectors

    def _positions(self, pieces: Integers) -> Integers:
        if not self._counts_from_padding:
            return np.arange(len(pieces))
        # Like the library: a padding piece, which a tokenizer may give to a word, has a position of its own.
        counted = pieces != self._padding
        return np.where(counted, counted.cumsum(), 0) + self._padding


class TransformerLayer:
    """Attention, and two linear layers with an activation between them."""

    def __init__(
        self, architecture: Architecture, weights: Weights, kernels: Kernels, number: int, is_int8: bool
    ):
        kind, name = architecture.kind, architecture.layers[number]
        self._kernels, self._activation, self._heads = kernels, architecture.activation, architecture.heads
        self._normalizes_first = kind.normalizes_first

        def of(*parts: str, scale: Floats | None = None) -> LinearLayer:
            names = [f"{name}.{part}" for part in parts]
            return linear(architecture, weights, kernels, names, is_int8, scale)

        def norm(part: str) -> Norm | None:
            whole = f"{name}.{part}"
            if f"{whole}.weight" not in architecture.shapes:
                return None
            return Norm(weights, architecture.shapes, whole, architecture.epsilon)

        size = architecture.size
        # Queries are divided beforehand by what scores would be divided by.
        self._scale = np.float32((size // self._heads * terms_of_scores(architecture)) ** -0.5)
        scales = np.ones(3 * size, np.float32)
        scales[:size] = self._scale
        self._inputs, self._output = of(*kind.inputs, scale=scales), of(kind.output)
        self._inner, self._outer = of(kind.inner), of(kind.outer)
        self._is_gated = kind.is_gated
        self._attention_norm, self._norm = norm(kind.attention_norm), norm(kind.norm)
        self._rotation = architecture.rotations[number] if architecture.rotations else None
        self._added = added_scores(architecture, weights, kernels, number, self._scale)

    def __call__(self, states: Floats, bounds: Sequence[int]) -> Floats:
        """[n, size] The states above. states: [n, size] of all windows. bounds: see `Embeddings`."""
        before = states
        if self._normalizes_first and self._attention_norm:
            before = self._attention_norm(states)
        inputs = self._inputs(before)  # [n, 3 * size]
        context = np.empty_like(states)
        for start, end in pairwise(bounds):
            self._attend(inputs[start:end], context[start:end])
        attended = self._output(context)
        attended += states
        if not self._normalizes_first and self._attention_norm:
            attended = self._attention_norm(attended)
        assert self._norm
        inner = self._inner(self._norm(attended) if self._normalizes_first else attended)
        outer = self._outer(self._activated(inner))
        outer += attended
        return outer if self._normalizes_first else self._norm(outer)

    def _attend(self, inputs: Floats, context: Floats) -> None:
        """Write the mean of the values, weighted by attention, into context [n, size].

        inputs: [n, 3 * size] queries, keys and values of one window.
        """
        n = len(inputs)
        queries, keys, values = inputs.reshape(n, 3, self._heads, -1).transpose(1, 2, 0, 3)
        if self._rotation:
            queries, keys = (rotated(each, self._rotation.base) for each in (queries, keys))
        by_head = context.reshape(n, self._heads, -1)
        together = max(1, MOST_SCORES // (self._heads * n))
        for start in range(0, n, together):
            rows = queries[:, start : start + together]  # [heads, rows, size]
            scores = rows @ keys.transpose(0, 2, 1)  # [heads, rows, n]
            if self._added:
                distances = np.arange(start, start + rows.shape[1])[:, None] - np.arange(n)
                scores += self._added(rows, keys, distances)
            scores -= scores.max(2, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(2, keepdims=True)
            by_head[start : start + together] = (scores @ values).transpose(1, 0, 2)

    def _activated(self, inner: Floats) -> Floats:
        """[n, inner size] inner: [n, inner size], or twice that size with gates."""
        gates = None
        if self._is_gated:
            inner, gates = (np.ascontiguousarray(part) for part in np.split(inner, 2, axis=1))
        if self._activation in GELU:
            self._kernels.gelu(inner)
        else:
            inner = activated(self._activation, inner)
        return inner if gates is None else inner * gates


def linear(
    architecture: Architecture,
    weights: Weights,
    kernels: Kernels,
    names: Sequence[str],
    is_int8: bool = False,
    scale: Floats | None = None,
) -> LinearLayer:
    """The linear layers of these names, whose outputs are one behind the other. scale: [outputs]."""
    weight = np.concatenate([weights(f"{name}.weight") for name in names])
    bias = None
    if f"{names[0]}.bias" in architecture.shapes:
        bias = np.concatenate([weights(f"{name}.bias") for name in names])
    if scale is not None:
        weight, bias = weight * scale[:, None], None if bias is None else bias * scale
    return LinearLayer(kernels, weight, bias, is_int8)


def activated(name: str, values: Floats) -> Floats:
    if name in GELU_BY_TANH:
        cubed = values + np.float32(0.044715) * values * values * values
        return np.float32(0.5) * values * (1 + tanh(np.float32(0.7978845608028654) * cubed))
    return np.maximum(values, 0) if name == "relu" else values / (1 + exponential(-values))


def rotated(vectors: Floats, base: float) -> Floats:
    """[heads, n, size] Pairs of numbers, turned by multiples of the position (Su et al. 2021)."""
    n, size = vectors.shape[1:]
    frequencies = 1 / np.float32(base) ** (np.arange(0, size, 2, dtype=np.float32) / size)
    angles = np.arange(n, dtype=np.float32)[:, None] * np.concatenate([frequencies, frequencies])
    first, second = np.split(vectors, 2, axis=2)
    turned: Floats = vectors * np.cos(angles) + np.concatenate([-second, first], axis=2) * np.sin(angles)
    return turned


def terms_of_scores(architecture: Architecture) -> int:
    """The number of products that are added to a score of attention."""
    vectors = architecture.disentangled
    return 1 + sum(map(bool, (vectors.keys, vectors.queries))) if vectors else 1


def added_scores(
    architecture: Architecture, weights: Weights, kernels: Kernels, number: int, scale: np.float32
) -> AddedScores | None:
    """What distances add to the scores of a layer. scale: of queries."""
    if architecture.distances:
        of_distance = weights(architecture.distances)  # [buckets, heads]
        return lambda _queries, _keys, distances: of_distance[mpnet_buckets(distances)].transpose(2, 0, 1)
    if architecture.rotations:
        reach = architecture.rotations[number].reach
        if reach is None:
            return None
        return lambda _queries, _keys, distances: np.where(abs(distances) <= reach, 0, -np.inf)[None]
    if architecture.disentangled:
        return disentangled_scores(architecture, weights, kernels, number, scale)
    return None


def mpnet_buckets(distances: Integers) -> Integers:
    """The buckets of distances from keys to queries: those to one side in one half, far ones together."""
    half = MPNET_BUCKETS // 2
    exact, size = half // 2, abs(distances)
    far = np.log(np.maximum(size, 1).astype(np.float32) / exact)
    far = exact + (far / np.float32(np.log(MPNET_FURTHEST / exact)) * (half - exact)).astype(np.int64)
    return np.where(distances < 0, half, 0) + np.where(size < exact, size, np.minimum(far, half - 1))


def disentangled_scores(
    architecture: Architecture, weights: Weights, kernels: Kernels, number: int, scale: np.float32
) -> AddedScores:
    """Queries times keys that stand for distances, and the reverse (He et al. 2021)."""
    settings = architecture.disentangled
    assert settings
    vectors = weights("encoder.rel_embeddings.weight")  # [2 * span, size]
    if settings.is_normalized:
        vectors = Norm(weights, architecture.shapes, "encoder.LayerNorm", architecture.epsilon)(vectors)

    def by_head(part: str) -> Floats:
        """[heads, 2 * span, size]"""
        name = f"{architecture.layers[number]}.{part}"
        made = linear(architecture, weights, kernels, [name])(vectors)
        return made.reshape(len(made), architecture.heads, -1).transpose(1, 0, 2)

    of_keys = by_head(settings.keys) if settings.keys else None
    of_queries = by_head(settings.queries) * scale if settings.queries else None

    def added(queries: Floats, keys: Floats, distances: Integers) -> Floats:
        least, rows = distances.min(), np.arange(len(distances))[:, None]
        found = np.arange(least, distances.max() + 1)  # all distances of these rows
        used = np.clip(deberta_buckets(found, settings) + settings.span, 0, 2 * settings.span - 1)
        place = distances - least  # [rows, n]
        scores = np.zeros((len(queries), *distances.shape), np.float32)
        if of_keys is not None:
            scores += (queries @ of_keys[:, used].transpose(0, 2, 1))[:, rows, place]
        if of_queries is not None:
            products = of_queries[:, used] @ keys.transpose(0, 2, 1)  # [heads, distances, n]
            scores += products[:, place, np.arange(keys.shape[1])]
        return scores

    return added


def deberta_buckets(distances: Integers, settings: Disentangled) -> Integers:
    if settings.buckets <= 0:
        return distances
    middle = settings.buckets // 2
    size = np.where(abs(distances) < middle, middle - 1, abs(distances)).astype(np.float32)
    furthest = np.log(np.float32((settings.furthest - 1) / middle))
    far = np.ceil(np.log(size / np.float32(middle)) / furthest * np.float32(middle - 1)) + middle
    return np.where(size <= middle, distances, far * np.sign(distances)).astype(np.int64)
