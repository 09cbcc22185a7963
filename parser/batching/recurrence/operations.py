"""How much a chunk asks for."""

from __future__ import annotations

from parser.batching.recurrence.components import components, first_frames
from parser.batching.recurrence.weights import Weights


def operations(weights: Weights, frames: int, streams: int, back: int) -> float:
    """Floating-point operations of a training step's products, as few as there need be.

    As in `Unrolled`; inputs need no errors, and tables of symbols no products.
    """
    graph = weights.graph
    first = first_frames(graph, components(graph), back)
    total = 0.0
    for each in graph.connections:
        source = graph.layers[each.source]
        if each.weight == "full" and source.kind != "symbols":
            product = 2.0 * streams * source.size * graph.layers[each.target].size
            # Backward there is one for the weights, and one for what is below.
            total += product * (frames + (frames - first[each.target]) * (1 if source.is_input else 2))
    return total
