"""Gradients of weights, accumulated in `grad`. The tensors are reused from chunk to chunk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.product import add_transposed_product, write_transposed_product
from parser.batching.recurrence.frames import Frames
from parser.batching.recurrence.tape import Tape
from parser.batching.recurrence.weights import Bundle, Source, Weights


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
        self._lent: dict[nn.Parameter, tuple[Tensor, int]] = {}
        """The last gradient of a table whose rows are not a copy, and the address of their memory."""

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
        """rows: [rows, size], gradients of the table entries `numbers` [rows].

        The first rows become a part of `grad` without a copy. Call `keep_rows` before they are overwritten.
        """
        gradient = torch.sparse_coo_tensor(
            numbers[None].clone(), rows, parameter.shape, check_invariants=False
        )
        if parameter.grad is None:
            parameter.grad = gradient
            self._lent[parameter] = (gradient, rows.untyped_storage().data_ptr())
        else:
            parameter.grad = parameter.grad + gradient

    def keep_rows(self, parameter: nn.Parameter, rows: Tensor) -> None:
        """Copy what `grad` has of these rows, if they are a part of it and were not a copy."""
        gradient, address = self._lent.get(parameter, (None, 0))
        if gradient is not None and address == rows.untyped_storage().data_ptr():
            del self._lent[parameter]
            if gradient is parameter.grad:
                parameter.grad = gradient.clone()

    def _begin(self, parameter: nn.Parameter) -> Tensor:
        if parameter not in self._kept:
            self._kept[parameter] = torch.empty_like(parameter)
        parameter.grad = self._kept[parameter]
        return parameter.grad


def write_gradients(
    tape: Tape,
    chunk: Chunk,
    gradients: WeightGradients,
    start: int | None = None,
    count: int = 1,
    without: Collection[int] = (),
) -> None:
    """Gradients of all weights but tables, for the given frames, or if start is None for all frames.

    without: numbers of connections to leave out.
    """

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
    for index, connection in enumerate(weights.graph.connections):
        if connection.weight != "diagonal" or index in without:
            continue
        first = chunk.first[connection.target]
        if start is None or start >= first:
            begin, number = frames(first)
            own = errors.rows(connection.target, begin, number)
            rows = values.rows(connection.source, begin - connection.delay, number)
            tape.write(gradients.add_elements, weights.diagonal(connection), own, rows)


def write_table_gradients(tape: Tape, chunk: Chunk, gradients: WeightGradients) -> None:
    """Gradients of tables, always for all frames at once."""
    for bundle, source, numbers, errors in _table_rows(chunk):
        table = chunk.weights.matrix(bundle, source)
        tape.write(gradients.add_rows, table, numbers, errors)
        if any(chunk.weights.graph.layers[layer].output for layer in bundle.layers):
            # The errors of outputs are overwritten before the next backward pass.
            tape.write(gradients.keep_rows, table, errors)


def write_kept_rows(tape: Tape, chunk: Chunk, gradients: WeightGradients) -> None:
    """Copy the gradients of tables from the chunk before, in case that they are still accumulated."""
    for bundle, source, _, errors in _table_rows(chunk):
        tape.write(gradients.keep_rows, chunk.weights.matrix(bundle, source), errors)


def _table_rows(chunk: Chunk) -> Iterator[tuple[Bundle, Source, Tensor, Tensor]]:
    """Bundles with tables: the symbols [rows], and the errors [rows, width] of all frames."""
    for bundle in chunk.weights.bundles:
        first = _first(chunk, bundle)
        for source in bundle.sources:
            if chunk.weights.is_table(source):
                count = chunk.frames - first
                numbers = chunk.values.rows(source.layer, first, count)[:, 0]
                yield bundle, source, numbers, chunk.errors.together(bundle.layers, first, count)


def _first(chunk: Chunk, bundle: Bundle) -> int:
    return min(chunk.first[layer] for layer in bundle.layers)
