"""Loops over frames on a CPU: what is done in them because it reads values that are still in the cache."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from parser.batching.recurrence.components import Component, with_elementwise_neighbours
from parser.batching.recurrence.gradients import Chunk, WeightGradients
from parser.batching.recurrence.tape import Tape
from parser.batching.recurrence.weights import Weights

MIN_ELEMENTS = 16 * 1024
"""Of a layer in a frame. With fewer, the calls for each frame cost more than the cache saves."""


def with_loops(weights: Weights, parts: Sequence[Component], streams: int) -> list[Component]:
    """The parts, or with the elementwise layers around cycles in their loops where this is faster."""
    cycles = [part for part in parts if part.recurrent]
    if cycles and all(is_better_in_loop(weights, part, streams) for part in cycles):
        return with_elementwise_neighbours(weights.graph, parts)
    return list(parts)


def is_better_in_loop(weights: Weights, part: Component, streams: int) -> bool:
    """Whether an elementwise operation should be done frame by frame, although it could be done at once."""
    smallest = min(weights.graph.layers[layer].size for layer in part.layers)
    return part.recurrent and weights.like.is_cpu and streams * smallest >= MIN_ELEMENTS


class DiagonalSums:
    """Gradients of the diagonal weights into a recurrent part, summed frame by frame for each stream."""

    def __init__(self, tape: Tape, chunk: Chunk, part: Component):
        self._tape, self._chunk = tape, chunk
        self._sums: dict[int, Tensor] = {}
        """By the number of the connection, [streams, size]."""
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
        """The numbers of the connections."""
        for number, total in self._sums.items():
            connection = self._chunk.weights.graph.connections[number]
            self._tape.write(gradients.add_sums, self._chunk.weights.diagonal(connection), total)
        return set(self._sums)
