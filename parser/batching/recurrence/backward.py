"""The backward pass of a chunk, recorded on a tape: the mirror image of the forward pass (Hwang & Sung 2015).

The errors of a layer are summed over its outgoing connections. Contributions from other components are
computed over all frames at once; within a recurrent component, each frame adds the contributions inside the
cycle. The gradient of a weight is one product over all frames, also within a cycle, once all its errors are
known.

`WeightGradients` accumulates in `grad`; its tensors are reused from chunk to chunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.functional import add_transposed_product, write_transposed_product
from parser.batching.recurrence.forward import Frames, Tape, TapeSum, activation_groups
from parser.batching.recurrence.layer_graph import Component, Connection, is_better_in_loop
from parser.batching.recurrence.weights import Bundle, Source, Weights


class Chunk(NamedTuple):
    """The state of a chunk, on which both passes work."""

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
        """Add left.T @ right; left: [rows, m], right: [rows, n]."""
        if parameter.grad is None:
            write_transposed_product(self._begin(parameter), left, right)
        else:
            add_transposed_product(parameter.grad, left, right)

    def add_sums(self, parameter: nn.Parameter, rows: Tensor) -> None:
        """Add the sum of rows [rows, size]."""
        if parameter.grad is None:
            torch.sum(rows, 0, out=self._begin(parameter))
        else:
            parameter.grad += rows.sum(0)

    def add_elements(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """Add the sum over rows of elementwise products; left, right: [rows, size]."""
        self.add_sums(parameter, left * right)

    def add_rows(self, parameter: nn.Parameter, numbers: Tensor, rows: Tensor) -> None:
        """Add rows [rows, size], the gradients of the table entries `numbers` [rows].

        The first rows become part of `grad` without a copy. Call `keep_rows` before they are overwritten.
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
        """Copy `grad` if it shares the memory of these rows."""
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
    """Record the gradients of all weights except tables, for some frames, or for all if start is None.

    without: the numbers of connections to leave out.
    """

    def frames(first: int) -> tuple[int, int]:
        return (first, chunk.frames - first) if start is None else (start, count)

    weights, values, errors = chunk.weights, chunk.values, chunk.errors
    for bundle in weights.bundles:
        first = _first(chunk, bundle)
        if start is None or start >= first:
            begin, number = frames(first)
            its_errors = errors.together(bundle.layers, begin, number)
            for source in bundle.sources:
                if not weights.is_table(source):
                    rows = values.rows(source.layer, begin - source.delay, number)
                    tape.write(gradients.add_products, weights.matrix(bundle, source), its_errors, rows)
            if bundle.has_bias:
                tape.write(gradients.add_sums, weights.bias_of(bundle), its_errors)
    for index, connection in enumerate(weights.graph.connections):
        if connection.weight != "diagonal" or index in without:
            continue
        first = chunk.first[connection.target]
        if start is None or start >= first:
            begin, number = frames(first)
            its_errors = errors.rows(connection.target, begin, number)
            rows = values.rows(connection.source, begin - connection.delay, number)
            tape.write(gradients.add_elements, weights.diagonal(connection), its_errors, rows)


def write_table_gradients(tape: Tape, chunk: Chunk, gradients: WeightGradients) -> None:
    """Record the gradients of tables, always for all frames at once."""
    for bundle, source, numbers, errors in _table_rows(chunk):
        table = chunk.weights.matrix(bundle, source)
        tape.write(gradients.add_rows, table, numbers, errors)
        if any(chunk.weights.graph.layers[layer].output for layer in bundle.layers):
            # The errors of outputs are overwritten before the next backward pass.
            tape.write(gradients.keep_rows, table, errors)


def _table_rows(chunk: Chunk) -> Iterator[tuple[Bundle, Source, Tensor, Tensor]]:
    """Yield bundles and their tables, with the symbols [rows] and the errors [rows, width] of all frames."""
    for bundle in chunk.weights.bundles:
        first = _first(chunk, bundle)
        for source in bundle.sources:
            if chunk.weights.is_table(source):
                count = chunk.frames - first
                numbers = chunk.values.rows(source.layer, first, count)[:, 0]
                yield bundle, source, numbers, chunk.errors.together(bundle.layers, first, count)


def _first(chunk: Chunk, bundle: Bundle) -> int:
    return min(chunk.first[layer] for layer in bundle.layers)


class DiagonalSums:
    """Gradients of the diagonal weights into a recurrent part, summed frame by frame for each stream."""

    def __init__(self, tape: Tape, chunk: Chunk, part: Component):
        self._tape, self._chunk = tape, chunk
        self._sums: dict[int, Tensor] = {}
        """The sums [streams, size], by the number of the connection."""
        for number, connection in enumerate(chunk.weights.graph.connections):
            if connection.weight == "diagonal" and connection.target in part.layers:
                total = chunk.errors.rows(connection.target, chunk.first[connection.target]).new_zeros(
                    chunk.errors.streams, chunk.weights.graph.layers[connection.target].size
                )
                self._sums[number] = total
                tape.write(total.zero_)

    def add(self, frame: int) -> None:
        for number, total in self._sums.items():
            connection = self._chunk.weights.graph.connections[number]
            if frame >= self._chunk.first[connection.target]:
                errors = self._chunk.errors.rows(connection.target, frame)
                values = self._chunk.values.rows(connection.source, frame - connection.delay)
                self._tape.write(total.addcmul_, errors, values)

    def finish(self, gradients: WeightGradients) -> set[int]:
        """Add the sums to the gradients. Returns the numbers of the connections."""
        for number, total in self._sums.items():
            connection = self._chunk.weights.graph.connections[number]
            self._tape.write(gradients.add_sums, self._chunk.weights.diagonal(connection), total)
        return set(self._sums)


class _Term(NamedTuple):
    """A contribution to a layer's errors: through all full connections to a bundle, or one connection."""

    through: tuple[Bundle, Source] | Connection
    target: str
    """One target. The targets of a bundle are all inside the layer's component, or all outside."""
    delay: int
    first: int
    """The first frame of the layer that gets a contribution."""


def backward_tape(
    chunk: Chunk, parts: Sequence[Component], gradients: WeightGradients, gradients_by_frame: bool
) -> Tape:
    """Record the backward pass of a chunk.

    parts: as in the forward pass; gradients_by_frame: accumulate gradients of weights in every frame.
    """
    writer = _BackwardWriter(chunk)
    graph = chunk.weights.graph
    for bundle, source, _, errors in _table_rows(chunk):
        # The last chunk's gradients of tables may still be being accumulated.
        writer.tape.write(gradients.keep_rows, chunk.weights.matrix(bundle, source), errors)
    summed: set[int] = set()
    for part in reversed(parts):
        in_loop = (
            not gradients_by_frame
            and chunk.weights.like.is_cpu
            and is_better_in_loop(graph, part, chunk.errors.streams)
        )
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
            writer.write_outside(frozenset([layer]), layer)
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
        """The layers that hold errors from other components, in all frames."""
        self._elsewhere: dict[tuple[str, int], Tensor] = {}
        """Errors that are not copied but alias the errors of another layer, by layer and frame."""

    def blocks(self, part: Component) -> list[tuple[int, int]]:
        """Return blocks of frames to process together, as (first frame, number), from last to first."""
        first = min(self._first[layer] for layer in part.layers)
        if part.recurrent:
            return [(frame, 1) for frame in reversed(range(first, self._frames))]
        return [(first, self._frames - first)]

    def write_outside(self, members: frozenset[str], layer: str) -> None:
        """Record the errors of a layer from other components, in all frames.

        The caller has set the errors of outputs in new frames.
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

    def write_stage(self, part: Component, stage: Sequence[str], start: int, count: int) -> None:
        """Record the errors of independent layers of a part, from the errors of the layers above."""
        for layer in stage:
            rows = self._errors.rows(layer, start, count)
            total = TapeSum(self.tape, rows, layer in self._begun)
            for term in self._terms(layer):
                if term.target in part.members and term.first <= start < self._frames - term.delay:
                    self._add(total, term, start, count)
            if total.value is None or self._must_lie_in_place(part, layer):
                total.settle()
            assert total.value is not None
            if total.value is not rows:
                self._elsewhere[layer, start] = total.value
        for layers in activation_groups(self._weights, stage):
            activation = self._graph.layers[layers[0]].activation
            if activation != "identity":
                rows = self._errors.together(layers, start, count)
                errors = self._elsewhere.pop(
                    (layers[0], start), rows
                )  # an alias, if any, is of a single layer
                values = self._values.together(layers, start, count)
                self.tape.write(ACTIVATION_GRADIENTS[activation], errors, values, rows)

    def _terms(self, layer: str) -> list[_Term]:
        terms = []
        for bundle, source in self._weights.out_of(layer):
            first = min(self._first[above] for above in bundle.layers) - source.delay
            terms.append(_Term((bundle, source), bundle.layers[0], source.delay, first))
        for each in self._graph.out_of(layer):
            if each.weight != "full":
                terms.append(_Term(each, each.target, each.delay, self._first[each.target] - each.delay))
        return terms

    def _add(self, total: TapeSum, term: _Term, start: int, count: int) -> None:
        """Add a contribution to the errors of some frames of a layer."""
        above = start + term.delay
        if isinstance(term.through, tuple):
            bundle, source = term.through
            matrix = self._weights.matrix(bundle, source).detach()
            total.add_product(self._errors.together(bundle.layers, above, count), matrix.T)
            return
        connection = term.through
        errors = self._elsewhere.get((connection.target, above))
        if errors is None:
            errors = self._errors.rows(connection.target, above, count)
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

    def _must_lie_in_place(self, part: Component, layer: str) -> bool:
        """Whether the layer's errors are read over all frames. If not, they can alias another layer's."""
        into = self._graph.into(layer)
        weighted = any(each.weight != "identity" for each in into) or self._graph.has_bias(layer)
        # The errors of inputs are read over all frames, even if everything is one part.
        from_outside = any(
            each.source not in part.members or self._graph.layers[each.source].is_input for each in into
        )
        return weighted or from_outside or not part.recurrent


ACTIVATION_GRADIENTS: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "sigmoid": lambda errors, values, out: torch.ops.aten.sigmoid_backward.grad_input(
        errors, values, grad_input=out
    ),
    "tanh": lambda errors, values, out: torch.ops.aten.tanh_backward.grad_input(
        errors, values, grad_input=out
    ),
    "relu": lambda errors, values, out: torch.ops.aten.threshold_backward.grad_input(
        errors, values, 0, grad_input=out
    ),
    "complement": lambda errors, values, out: torch.neg(errors, out=out),
}
"""Functions of the errors of the outputs, the outputs, and a tensor for the errors of the inputs."""
