"""Gradients of weights, accumulated in `grad`. The tensors are reused from chunk to chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.product import add_transposed_product, write_transposed_product
from parser.batching.recurrence.frames import Frames
from parser.batching.recurrence.tape import Tape
from parser.batching.recurrence.weights import Bundle, Weights


class Chunk(NamedTuple):
    """The state of a chunk that the passes work on."""

    weights: Weights
    values: Frames
    errors: Frames
    frames: int
    first: Mapping[str, int]
    """The first frame of each layer that errors reach, without inputs whose errors are not computed."""


class WeightGradients:
    """Accumulates gradients. `grad` is set to a reused tensor: clone it to keep it beyond the next chunk."""

    def __init__(self) -> None:
        self._kept: dict[nn.Parameter, Tensor] = {}

    def add_products(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """left.T @ right; left: [rows, m], right: [rows, n]."""
        if parameter.grad is None:
            write_transposed_product(self._begin(parameter), left, right)
        else:
            add_transposed_product(parameter.grad, left, right)

    def add_sums(self, parameter: nn.Parameter, rows: Tensor) -> None:
        """rows: [rows, size]"""
        if parameter.grad is None:
            torch.sum(rows, 0, out=self._begin(parameter))
        else:
            parameter.grad += rows.sum(0)

    def add_elements(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """Sums over rows of elementwise products; left, right: [rows, size]."""
        self.add_sums(parameter, left * right)

    def add_rows(self, parameter: nn.Parameter, numbers: Tensor, rows: Tensor) -> None:
        """rows: [rows, size], gradients of the table entries `numbers` [rows]."""
        # Clones, because the next chunk overwrites both.
        kept = (numbers[None].clone(), rows.clone())
        gradient = torch.sparse_coo_tensor(*kept, parameter.shape, check_invariants=False)
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient

    def _begin(self, parameter: nn.Parameter) -> Tensor:
        if parameter not in self._kept:
            self._kept[parameter] = torch.empty_like(parameter)
        parameter.grad = self._kept[parameter]
        return parameter.grad


def write_gradients(
    tape: Tape, chunk: Chunk, gradients: WeightGradients, start: int | None = None, count: int = 1
) -> None:
    """Gradients of all weights but tables, for the given frames, or if start is None for all frames."""

    def frames(first: int) -> tuple[int, int]:
        return (first, chunk.frames - first) if start is None else (start, count)

    weights, values, errors = chunk.weights, chunk.values, chunk.errors
    for bundle in weights.bundles:
        first = _first(chunk, bundle)
        if start is None or start >= first:
            begin, number = frames(first)
            own = errors.together(bundle.layers, begin, number)
            for source in bundle.sources:
                if not weights.is_table(source):
                    rows = values.rows(source.layer, begin - source.delay, number)
                    tape.write(gradients.add_products, weights.matrix(bundle, source), own, rows)
            if bundle.has_bias:
                tape.write(gradients.add_sums, weights.bias_of(bundle), own)
    for connection in weights.graph.connections:
        first = chunk.first[connection.target]
        if connection.weight == "diagonal" and (start is None or start >= first):
            begin, number = frames(first)
            own = errors.rows(connection.target, begin, number)
            rows = values.rows(connection.source, begin - connection.delay, number)
            tape.write(gradients.add_elements, weights.diagonal(connection), own, rows)


def write_table_gradients(tape: Tape, chunk: Chunk, gradients: WeightGradients) -> None:
    """Gradients of tables, always for all frames at once."""
    weights = chunk.weights
    for bundle in weights.bundles:
        first = _first(chunk, bundle)
        for source in bundle.sources:
            if weights.is_table(source):
                count = chunk.frames - first
                numbers = chunk.values.rows(source.layer, first, count)[:, 0]
                own = chunk.errors.together(bundle.layers, first, count)
                tape.write(gradients.add_rows, weights.matrix(bundle, source), numbers, own)


def _first(chunk: Chunk, bundle: Bundle) -> int:
    return min(chunk.first[layer] for layer in bundle.layers)
