"""The forward pass of a chunk, recorded on a tape (Hwang & Sung 2015).

Contributions from other components are computed over all frames at once, with one product for all layers of a
bundle. Within a recurrent component, each frame then adds only the contributions inside the cycle: first the
contributions of earlier frames, then those of the same frame, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor

from parser.batching.functional import add_product, write_product
from parser.batching.lstm import write_tanh
from parser.batching.recurrence.components import Component
from parser.batching.recurrence.frames import Frames
from parser.batching.recurrence.layer_graph import Connection, LayerGraph
from parser.batching.recurrence.tape import Tape, TapeSum
from parser.batching.recurrence.weights import Bundle, Source, Weights


def _write_sigmoid(rows: Tensor, out: Tensor) -> None:
    torch.sigmoid(rows, out=out)


def _write_relu(rows: Tensor, out: Tensor) -> None:
    torch.clamp_min(rows, 0, out=out)


def _write_complement(rows: Tensor, out: Tensor) -> None:
    torch.neg(rows, out=out).add_(1)


ACTIVATIONS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "sigmoid": _write_sigmoid,
    "tanh": write_tanh,
    "relu": _write_relu,
    "complement": _write_complement,
}
"""Functions of the sums and a tensor for the values, which can be the same; all names but `identity`."""


def forward_tape(weights: Weights, parts: Sequence[Component], values: Frames, frames: int) -> Tape:
    writer = _ForwardWriter(weights, values)
    for part in parts:
        writer.write_outside(part, frames)
        for start, count in _blocks(part, frames):
            writer.write_delayed(part, start, count)
            for stage in part.stages:
                writer.write_stage(part, stage, start, count)
    return writer.tape


def _blocks(part: Component, frames: int) -> list[tuple[int, int]]:
    return [(frame, 1) for frame in range(frames)] if part.recurrent else [(0, frames)]


class _ForwardWriter:
    def __init__(self, weights: Weights, values: Frames):
        self.tape = Tape()
        self._weights, self._graph, self._values = weights, weights.graph, values
        self._begun: set[str] = set()
        """The layers that hold a partial sum from other components, over all frames."""
        self._products: set[str] = set()
        """The layers that hold products of the current frame."""
        self._at_once: set[str] = set()
        """The layers among `_products` that include products of sources in the same frame."""

    def write_outside(self, part: Component, frames: int) -> None:
        """Record contributions from other parts, over all frames, except to multiplicative layers."""
        for layer in part.layers:
            bundle = self._weights.bundle_of[layer]
            sources = [source for source in bundle.sources if source.layer not in part.members]
            if layer not in self._begun and (sources or (bundle.has_bias and not self._is_whole(part))):
                self._write_products(bundle, sources, 0, frames, started=False)
                self._begun |= set(bundle.layers)
        if not part.recurrent:
            return  # `write_stage` adds elementwise contributions, because it handles all frames
        for layer in part.layers:
            if self._graph.layers[layer].kind == "additive":
                outside = [each for each in self._elementwise(layer) if each.source not in part.members]
                if outside:
                    self._sum(layer, outside, 0, frames, started=layer in self._begun).settle()
                    self._begun.add(layer)

    def write_delayed(self, part: Component, start: int, count: int) -> None:
        """Record contributions of a part's own earlier frames, through full connections."""
        self._products, self._at_once = set(), set()
        for layer in part.layers:
            bundle = self._weights.bundle_of[layer]
            delayed = [source for source in bundle.sources if source.layer in part.members and source.delay]
            if layer not in self._products and (delayed or (bundle.has_bias and self._is_whole(part))):
                self._write_products(bundle, delayed, start, count, started=layer in self._begun)
                self._products |= set(bundle.layers)

    def write_stage(self, part: Component, stage: Sequence[str], start: int, count: int) -> None:
        """Record independent layers of a part, in some frames."""
        self._write_products_at_once(part, stage, start, count)
        together = [
            (layers, ACTIVATIONS.get(self._graph.layers[layers[0]].activation))
            for layers in activation_groups(self._weights, stage)
        ]
        # The activation of a single layer reads the sum in place, without a copy.
        single = {layers[0] for layers, apply in together if len(layers) == 1 and apply}
        sums = {}
        for layer in stage:
            if is_only_added(self._graph, layer):
                continue  # `_sum` computes it
            started = layer in self._begun or layer in self._products
            inner = self._elementwise(layer)
            if part.recurrent:
                inner = [each for each in inner if each.source in part.members]
            if self._graph.layers[layer].kind == "multiplicative":
                self._write_factors(layer, start, count)
            elif inner or not started:
                total = self._sum(layer, inner, start, count, started)
                if layer not in single:
                    total.settle()
                sums[layer] = total.value
        for layers, apply in together:
            if apply:
                place = self._values.together(layers, start, count)
                found = sums.get(layers[0]) if len(layers) == 1 else None
                self.tape.write(apply, place if found is None else found, place)

    def _write_products_at_once(self, part: Component, layers: Sequence[str], start: int, count: int) -> None:
        """Record products of bundles with sources in the same part and frame, if not recorded yet."""
        for layer in layers:
            bundle = self._weights.bundle_of[layer]
            inner = [source for source in bundle.sources if source.layer in part.members and not source.delay]
            if inner and layer not in self._at_once:
                started = layer in self._begun or layer in self._products
                self._write_products(bundle, inner, start, count, started)
                self._at_once |= set(bundle.layers)
                self._products |= set(bundle.layers)

    def _write_products(
        self, bundle: Bundle, sources: Sequence[Source], start: int, count: int, started: bool
    ) -> None:
        """Record the bundle's products with these sources, and the bias unless a sum is started already."""
        place = self._values.together(bundle.layers, start, count)
        parameter = self._weights.bias_of(bundle)
        bias = None if parameter is None else parameter.detach()
        if not sources and bias is not None:
            self.tape.write(place.copy_, bias.expand_as(place))
        for source in sources:
            rows = self._values.rows(source.layer, start - source.delay, count)
            matrix = self._weights.matrix(bundle, source).detach()
            if self._weights.is_table(source):
                self.tape.write(_write_rows, place, matrix, rows[:, 0], None if started else bias, started)
            elif started:
                self.tape.write(add_product, place, rows, matrix)
            else:
                self.tape.write(write_product, place, rows, matrix, bias)
            started = True

    def _sum(
        self, layer: str, connections: Sequence[Connection], start: int, count: int, started: bool
    ) -> TapeSum:
        total = TapeSum(self.tape, self._values.rows(layer, start, count), started)
        for connection in connections:
            rows = self._values.rows(connection.source, start - connection.delay, count)
            if connection.weight == "diagonal":
                total.add_times(rows, self._weights.diagonal(connection).detach())
            elif is_only_added(self._graph, connection.source):
                total.add_times(*self._factors(connection.source, start, count))
            else:
                total.add(rows)
        return total

    def _write_factors(self, layer: str, start: int, count: int) -> None:
        place = self._values.rows(layer, start, count)
        factors = self._factors(layer, start, count)
        if len(factors) == 1:
            self.tape.write(place.copy_, factors[0])
        else:
            self.tape.write(torch.mul, factors[0], factors[1], out=place)
        for factor in factors[2:]:
            self.tape.write(place.mul_, factor)

    def _factors(self, layer: str, start: int, count: int) -> list[Tensor]:
        into = self._graph.into(layer)
        return [self._values.rows(each.source, start - each.delay, count) for each in into]

    def _elementwise(self, layer: str) -> list[Connection]:
        return [each for each in self._graph.into(layer) if each.weight != "full"]

    def _is_whole(self, part: Component) -> bool:
        return part.members >= self._graph.layers.keys()


def is_only_added(graph: LayerGraph, layer: str) -> bool:
    """Whether a layer is a product of two layers that is only added to a sum of the same frame.

    The product and the sum are then computed together, and the values of this layer are not stored.
    """
    own, out = graph.layers[layer], graph.out_of(layer)
    if own.kind != "multiplicative" or own.activation != "identity" or own.output or len(out) != 1:
        return False
    added = out[0].weight == "identity" and graph.layers[out[0].target].kind == "additive"
    return added and not out[0].delay and len(graph.into(layer)) == 2


def activation_groups(weights: Weights, stage: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of layers of a stage that are adjacent in a bundle and have the same activation."""
    found = []

    def kind(layer: str) -> tuple[bool, str]:
        return layer in stage, weights.graph.layers[layer].activation

    for layers in dict.fromkeys(weights.bundle_of[layer].layers for layer in stage):
        found += [tuple(run) for (live, _), run in groupby(layers, kind) if live]
    return found


def _write_rows(place: Tensor, table: Tensor, numbers: Tensor, bias: Tensor | None, add: bool) -> None:
    """Write rows of a table plus the bias to `place`, or add the rows to its contents."""
    if add:
        place += table.index_select(0, numbers)  # raises an error for negative numbers
        return
    torch.index_select(table, 0, numbers, out=place)
    if bias is not None:
        place += bias
