"""The number of floating-point operations of a chunk."""

from __future__ import annotations

from parser.batching.recurrence.components import components, first_frames
from parser.batching.recurrence.weights import Weights


def operations(weights: Weights, frames: int, streams: int, back: int) -> float:
    """The minimum number of floating-point operations for the products of a training step.

    Arguments as for `Unrolled`. Errors of inputs are not computed; tables of symbols need no products.
    """
    graph = weights.graph
    first = first_frames(graph, components(graph), back)
    total = 0.0
    for each in graph.connections:
        source = graph.layers[each.source]
        if each.weight == "full" and source.kind != "symbols":
            product = 2.0 * streams * source.size * graph.layers[each.target].size
            # The backward pass has one for the weights, and one for the errors of the source.
            total += product * (frames + (frames - first[each.target]) * (1 if source.is_input else 2))
    return total
