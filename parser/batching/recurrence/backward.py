"""The backward pass of a chunk, recorded on a tape: the mirror image of the forward pass (Hwang & Sung 2015).

The errors of a layer are summed over its outgoing connections. Contributions from other components are
computed over all frames at once; within a recurrent component, each frame adds the contributions inside the
cycle. The gradient of a weight is one product over all frames, also within a cycle, once all its errors are
known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.recurrence.activations import BACKWARD
from parser.batching.recurrence.components import Component
from parser.batching.recurrence.forward import runs
from parser.batching.recurrence.gradients import (
    Chunk,
    WeightGradients,
    write_gradients,
    write_kept_rows,
    write_table_gradients,
)
from parser.batching.recurrence.graph import Connection
from parser.batching.recurrence.loops import DiagonalSums, is_better_in_loop
from parser.batching.recurrence.tape import Tape, TapeSum
from parser.batching.recurrence.weights import Bundle, Source


class _Term(NamedTuple):
    """A contribution to the errors of a layer, through all full connections to a bundle or one connection."""

    through: tuple[Bundle, Source] | Connection
    target: str
    """One target; those of a bundle are all inside the layer's component or all outside."""
    delay: int
    first: int
    """The first frame of the layer that gets a contribution."""


def backward_tape(
    chunk: Chunk, parts: Sequence[Component], gradients: WeightGradients, gradients_by_frame: bool
) -> Tape:
    """parts: as in the forward pass; gradients_by_frame: accumulate gradients of weights in every frame."""
    writer = _BackwardWriter(chunk)
    graph = chunk.weights.graph
    write_kept_rows(writer.tape, chunk, gradients)
    summed: set[int] = set()
    for part in reversed(parts):
        in_loop = not gradients_by_frame and is_better_in_loop(chunk.weights, part, chunk.errors.streams)
        sums = DiagonalSums(writer.tape, chunk, part) if in_loop else None
        for layer in part.layers:
            writer.write_outside(part.members, layer)
        for start, count in writer.blocks(part):
            for stage in reversed(part.stages):
                reached = [layer for layer in stage if chunk.first[layer] <= start]
                writer.write_stage(part, reached, start, count)
            if gradients_by_frame:
                write_gradients(writer.tape, chunk, gradients, start, count)
            if sums:
                sums.add(start)
        if sums:
            summed |= sums.finish(gradients)
    for layer in graph.inputs:
        if layer in chunk.first:
            writer.write_input(layer)
    if not gradients_by_frame:
        write_gradients(writer.tape, chunk, gradients, without=summed)
    write_table_gradients(writer.tape, chunk, gradients)
    return writer.tape


class _BackwardWriter:
    def __init__(self, chunk: Chunk):
        self.tape = Tape()
        self._weights, self._values, self._errors, self._frames, self._first = chunk
        self._graph = self._weights.graph
        self._begun: set[str] = set()
        """Layers that hold errors from other components, in all frames."""
        self._elsewhere: dict[tuple[str, int], Tensor] = {}
        """By layer and frame, errors that alias those of another layer instead of a copy."""

    def blocks(self, part: Component) -> list[tuple[int, int]]:
        """Blocks of frames that are processed together, as (first frame, number), from last to first."""
        first = min(self._first[layer] for layer in part.layers)
        if part.recurrent:
            return [(frame, 1) for frame in reversed(range(first, self._frames))]
        return [(first, self._frames - first)]

    def write_outside(self, members: frozenset[str], layer: str) -> None:
        """Errors of a layer from other components, in all frames.

        The caller has set those of new output frames.
        """
        terms = [term for term in self._terms(layer) if term.target not in members]
        first, is_output = self._first[layer], self._graph.layers[layer].output
        if not terms and not is_output:
            return
        spans: dict[tuple[int, int], list[_Term]] = defaultdict(list)
        for term in terms:
            start, until = max(first, term.first), self._frames - term.delay
            if start < until:
                spans[start, until].append(term)
        begun = is_output or len(spans) != 1
        if is_output:
            self._write_zeros(layer, first, 0)
        elif begun:
            self._write_zeros(layer, first, self._frames)
        for (start, until), same in spans.items():
            if not begun:
                self._write_zeros(layer, first, start)
                self._write_zeros(layer, until, self._frames)
            total = TapeSum(self.tape, self._errors.rows(layer, start, until - start), begun)
            for term in same:
                self._add(total, term, start, until - start)
            total.settle()
        self._begun.add(layer)

    def _write_zeros(self, layer: str, start: int, until: int) -> None:
        if start < until:
            self.tape.write(self._errors.rows(layer, start, until - start).zero_)

    def write_input(self, layer: str) -> None:
        self.write_outside(frozenset([layer]), layer)

    def write_stage(self, part: Component, stage: Sequence[str], start: int, count: int) -> None:
        """The errors of independent layers of a part, from the errors of the layers above."""
        for layer in stage:
            place = self._errors.rows(layer, start, count)
            total = TapeSum(self.tape, place, layer in self._begun)
            for term in self._terms(layer):
                if term.target in part.members and term.first <= start < self._frames - term.delay:
                    self._add(total, term, start, count)
            if total.found is None or self._must_lie_in_place(part, layer):
                total.settle()
            assert total.found is not None
            if total.found is not place:
                self._elsewhere[layer, start] = total.found
        for layers in runs(self._weights, stage):
            if self._graph.layers[layers[0]].activation != "identity":
                self._write_activation(layers, start, count)

    def _terms(self, layer: str) -> list[_Term]:
        found = []
        for bundle, source in self._weights.out_of(layer):
            first = min(self._first[above] for above in bundle.layers) - source.delay
            found.append(_Term((bundle, source), bundle.layers[0], source.delay, first))
        for each in self._graph.out_of(layer):
            if each.weight != "full":
                found.append(_Term(each, each.target, each.delay, self._first[each.target] - each.delay))
        return found

    def _add(self, total: TapeSum, term: _Term, start: int, count: int) -> None:
        """Add a contribution to the errors of some frames of a layer."""
        above = start + term.delay
        if isinstance(term.through, tuple):
            bundle, source = term.through
            matrix = self._weights.matrix(bundle, source).detach()
            total.add_product(self._errors.together(bundle.layers, above, count), matrix.T)
            return
        connection = term.through
        errors = self._errors_of(connection.target, above, count)
        others = [each for each in self._graph.into(connection.target) if each != connection]
        if connection.weight == "diagonal":
            total.add_times(errors, self._weights.diagonal(connection).detach())
        elif self._graph.layers[connection.target].kind == "multiplicative" and others:
            total.add_times(errors, self._product_of(others, above, count))
        else:
            total.add(errors)

    def _product_of(self, factors: Sequence[Connection], start: int, count: int) -> Tensor:
        """[count * streams, size] The product of the sources of a multiplicative layer."""
        rows = [self._values.rows(each.source, start - each.delay, count) for each in factors]
        if len(rows) == 1:
            return rows[0]
        product = torch.empty_like(rows[0])
        self.tape.write(torch.mul, rows[0], rows[1], out=product)
        for factor in rows[2:]:
            self.tape.write(product.mul_, factor)
        return product

    def _errors_of(self, layer: str, start: int, count: int) -> Tensor:
        """[count * streams, size]"""
        if (layer, start) in self._elsewhere:
            return self._elsewhere[layer, start]
        return self._errors.rows(layer, start, count)

    def _must_lie_in_place(self, part: Component, layer: str) -> bool:
        """Whether its errors are read over all frames. If not, they may alias those of another layer."""
        into = self._graph.into(layer)
        weighted = any(each.weight != "identity" for each in into) or self._graph.has_bias(layer)
        # The errors of inputs are read over all frames, even if everything is one part.
        from_outside = any(
            each.source not in part.members or self._graph.layers[each.source].is_input for each in into
        )
        return weighted or from_outside or not part.recurrent

    def _write_activation(self, layers: tuple[str, ...], start: int, count: int) -> None:
        backward = BACKWARD[self._graph.layers[layers[0]].activation]
        place = self._errors.together(layers, start, count)
        errors = self._elsewhere.pop((layers[0], start), place)  # an alias, if any, is of a single layer
        self.tape.write(backward, errors, self._values.together(layers, start, count), place)
