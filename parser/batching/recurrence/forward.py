"""The forward pass of a chunk, recorded on a tape of calls that runs for every chunk (Hwang & Sung 2015).

Contributions from other components are computed over all frames at once, with one product for all layers of a
bundle. Within a recurrent component, each frame then adds only the contributions inside the cycle: first the
contributions of earlier frames, then those of the same frame, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from parser.batching.functional import add_product, write_product
from parser.batching.lstm import write_tanh
from parser.batching.recurrence.layer_graph import Component, Connection, LayerGraph
from parser.batching.recurrence.weights import Bundle, Source, Weights


class Tape:
    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

    def write(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self._calls.append(partial(function, *arguments, **named))

    def run(self) -> None:
        for call in self._calls:
            call()


class TapeSum:
    """A sum of contributions, accumulated in `out`. A single contribution is not copied."""

    def __init__(self, tape: Tape, out: Tensor, started: bool):
        """started: whether `out` holds a partial sum already."""
        self._tape, self._out = tape, out
        self._value = out if started else None

    @property
    def value(self) -> Tensor | None:
        """The sum: `out`, or the only contribution; None without contributions."""
        return self._value

    def add(self, rows: Tensor) -> None:
        if self._value is None:
            self._value = rows
        else:
            self._tape.write(torch.add, self._value, rows, out=self._out)
            self._value = self._out

    def add_times(self, left: Tensor, right: Tensor) -> None:
        """Add the elementwise product."""
        if self._value is None:
            self._tape.write(torch.mul, left, right, out=self._out)
        else:
            self._tape.write(torch.addcmul, self._value, left, right, out=self._out)
        self._value = self._out

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add left @ right.T; left: [rows, k], right: [columns, k]."""
        if self._value is None:
            self._tape.write(write_product, self._out, left, right)
        else:
            self.settle()
            self._tape.write(add_product, self._out, left, right)
        self._value = self._out

    def settle(self) -> None:
        """Make sure that `out` holds the sum."""
        if self._value is None:
            self._tape.write(self._out.zero_)
        elif self._value is not self._out:
            self._tape.write(self._out.copy_, self._value)
        self._value = self._out


class Frames:
    """The values or errors of layers: a number for each unit of each layer, frame and stream.

    Frame 0 is the first of the chunk. Earlier frames are those that are still needed.
    """

    def __init__(self, weights: Weights, first: Mapping[str, int], frames: int, streams: int):
        """first: the first frame of each layer, at most 0; inputs that are not needed are left out."""
        self.streams, self._last = streams, frames
        self._blocks: dict[str, tuple[Tensor, int, slice]] = {}
        groups = [(bundle.columns, bundle.width) for bundle in weights.bundles]
        for name in weights.graph.inputs:
            if name in first:
                layer = weights.graph.layers[name]
                width = 1 if layer.kind == "symbols" else layer.size
                groups.append(({name: slice(0, width)}, width))
        for columns, width in groups:
            start = min(first[name] for name in columns)
            symbols = any(weights.graph.layers[name].kind == "symbols" for name in columns)
            kind = torch.int64 if symbols else weights.like.dtype
            # [frames, streams, width]
            block = torch.zeros(frames - start, streams, width, dtype=kind, device=weights.like.device)
            for name, its_columns in columns.items():
                self._blocks[name] = (block, start, its_columns)

    def rows(self, layer: str, start: int, count: int = 1) -> Tensor:
        """[count * streams, size] The rows of a layer from frame `start` on; a view."""
        return self.together((layer,), start, count)

    def together(self, layers: Sequence[str], start: int, count: int = 1) -> Tensor:
        """[count * streams, sizes] Rows of adjacent layers of one bundle, from frame `start` on; a view."""
        block, first, columns = self._blocks[layers[0]]
        until = self._blocks[layers[-1]][2].stop
        assert first <= start <= start + count <= self._last, (layers, start, count)
        rows = block[start - first : start - first + count].flatten(0, 1)  # [count * streams, width]
        return rows[:, columns.start : until]

    def chunk(self, layer: str) -> Tensor:
        """[frames, streams, size] The layer from frame 0 on; a view."""
        block, first, columns = self._blocks[layer]
        return block[-first:, :, columns]

    def move(self) -> None:
        """Move on to the next chunk: the last frames become earlier frames."""
        for block, first in self._each():
            if first < 0:
                # Copy in pieces that do not overlap.
                for start in range(0, -first, self._last):
                    until = min(start + self._last, -first)
                    block[start:until].copy_(block[start + self._last : until + self._last])

    def forget(self) -> None:
        """Set all earlier frames to zero."""
        for block, first in self._each():
            block[:-first].zero_()

    def _each(self) -> list[tuple[Tensor, int]]:
        return list({id(block): (block, first) for block, first, _ in self._blocks.values()}.values())


def forward_tape(weights: Weights, parts: Sequence[Component], values: Frames, frames: int) -> Tape:
    writer = _ForwardWriter(weights, values)
    for part in parts:
        writer.write_outside(part, frames)
        for start, count in [(frame, 1) for frame in range(frames)] if part.recurrent else [(0, frames)]:
            writer.write_delayed(part, start, count)
            for stage in part.stages:
                writer.write_stage(part, stage, start, count)
    return writer.tape


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
        for layer in stage:  # products with sources in the same part and frame, if not recorded yet
            bundle = self._weights.bundle_of[layer]
            inside = [
                source for source in bundle.sources if source.layer in part.members and not source.delay
            ]
            if inside and layer not in self._at_once:
                started = layer in self._begun or layer in self._products
                self._write_products(bundle, inside, start, count, started)
                self._at_once |= set(bundle.layers)
                self._products |= set(bundle.layers)
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
                out, factors = self._values.rows(layer, start, count), self._factors(layer, start, count)
                if len(factors) == 1:
                    self.tape.write(out.copy_, factors[0])
                else:
                    self.tape.write(torch.mul, factors[0], factors[1], out=out)
                for factor in factors[2:]:
                    self.tape.write(out.mul_, factor)
            elif inner or not started:
                total = self._sum(layer, inner, start, count, started)
                if layer not in single:
                    total.settle()
                sums[layer] = total.value
        for layers, apply in together:
            if apply:
                rows = self._values.together(layers, start, count)
                summed = sums.get(layers[0]) if len(layers) == 1 else None
                self.tape.write(apply, rows if summed is None else summed, rows)

    def _write_products(
        self, bundle: Bundle, sources: Sequence[Source], start: int, count: int, started: bool
    ) -> None:
        """Record the bundle's products with these sources, and the bias unless a sum is started already."""
        out = self._values.together(bundle.layers, start, count)
        parameter = self._weights.bias_of(bundle)
        bias = None if parameter is None else parameter.detach()
        if not sources and bias is not None:
            self.tape.write(out.copy_, bias.expand_as(out))
        for source in sources:
            rows = self._values.rows(source.layer, start - source.delay, count)
            matrix = self._weights.matrix(bundle, source).detach()
            if self._weights.is_table(source):
                self.tape.write(_write_rows, out, matrix, rows[:, 0], None if started else bias, started)
            elif started:
                self.tape.write(add_product, out, rows, matrix)
            else:
                self.tape.write(write_product, out, rows, matrix, bias)
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
    product, out = graph.layers[layer], graph.out_of(layer)
    if (
        product.kind != "multiplicative"
        or product.activation != "identity"
        or product.output
        or len(out) != 1
    ):
        return False
    added = out[0].weight == "identity" and graph.layers[out[0].target].kind == "additive"
    return added and not out[0].delay and len(graph.into(layer)) == 2


def activation_groups(weights: Weights, stage: Sequence[str]) -> list[tuple[str, ...]]:
    """Return groups of layers of a stage that are adjacent in a bundle and have the same activation."""
    groups = []

    def kind(layer: str) -> tuple[bool, str]:
        return layer in stage, weights.graph.layers[layer].activation

    for layers in dict.fromkeys(weights.bundle_of[layer].layers for layer in stage):
        groups += [tuple(run) for (live, _), run in groupby(layers, kind) if live]
    return groups


ACTIVATIONS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "sigmoid": lambda rows, out: torch.sigmoid(rows, out=out),
    "tanh": write_tanh,
    "relu": lambda rows, out: torch.clamp_min(rows, 0, out=out),
    "complement": lambda rows, out: torch.neg(rows, out=out).add_(1),
}
"""Functions of the sums and a tensor for the values, which can be the same; all names but `identity`."""


def _write_rows(target: Tensor, table: Tensor, numbers: Tensor, bias: Tensor | None, add: bool) -> None:
    """Write rows of a table plus the bias to `target`, or add the rows to its contents."""
    if add:
        target += table.index_select(0, numbers)  # raises an error for negative numbers
        return
    torch.index_select(table, 0, numbers, out=target)
    if bias is not None:
        target += bias
