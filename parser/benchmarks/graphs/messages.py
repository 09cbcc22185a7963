"""Gated graph networks as graphs of messages (Gaunt et al. 2017): a loop over the steps, sparse or dense.

The position in the state is (step, steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from torch import Tensor, nn

from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.grouping import ConcatenatePayloads, Split
from parser.batching.messages.loop import add_loop, each_step
from parser.batching.messages.loss import Loss, Losses
from parser.batching.messages.parameterised import Updates
from parser.batching.messages.routing import Broadcast, FlatMap
from parser.batching.messages.transform import Transform
from parser.benchmarks.graphs.network import (
    GraphBatch,
    GraphNetwork,
    adjacencies,
    dense_propagation,
    scatter_messages,
)
from parser.benchmarks.module_lists import typed


class GraphMessages:
    """A graph network that can be trained by messages. dense: use dense propagation."""

    def __init__(self, network: GraphNetwork, dense: bool):
        self.network, self._dense = network, dense

    def losses(self, batch: GraphBatch) -> Losses:
        return (self.network.losses_densely if self._dense else self.network.losses)(batch)

    def replicas(self) -> Sequence[Sequence[nn.Module]]:
        """No replicas."""
        return ()

    def instance(self, number: int, batch: GraphBatch, training: bool) -> Instance:
        steps = self.network.steps
        edges = (adjacencies(batch),) if self._dense else (*batch.sources, batch.targets)
        entries = [
            Entry(0, (self.network.begin(batch.features),), (0, steps)),
            Entry(1, edges, (steps,)),
            Entry(2, (batch.features,), (steps, steps)),
            Entry(3, (batch.graph, batch.answers), (steps, steps)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """State updates run on another worker than propagation, if there are two."""
        graph, network = MessageGraph(), self.network
        graph.add(CONTROLLER, Controller(outputs=4))
        graph.add("edges", FlatMap(each_step))
        graph.connect((CONTROLLER, 1), "edges")
        graph.add("states", Broadcast(2))
        graph.add("update", updates.of_repeated(network.propagation.update), workers - 1)
        done = add_loop(graph, CONTROLLER, "states", "update")
        (self._add_matrix if self._dense else self._add_edges)(graph, updates)
        add_readout(graph, network, updates, workers, done, ((CONTROLLER, 2), (CONTROLLER, 3)))
        return graph

    def _add_edges(self, graph: MessageGraph, updates: Updates) -> None:
        """Add sparse propagation from `states` and `edges` to `update`, with one message per kind of edge."""
        kinds = len(self.network.propagation.edges)
        graph.add("ends", Split([kinds, 1]))
        graph.add("states and sources", ConcatenatePayloads())
        graph.add("at sources", Transform(lambda _, states, *sources: tuple(states[own] for own in sources)))
        graph.add("by kind", Split([1] * kinds))
        graph.add("edge outputs", ConcatenatePayloads(kinds + 2))
        graph.add("sum", Transform(lambda _, *given: _summed(*given)))
        graph.chain("edges", "ends")
        graph.chain("states", "states and sources", "at sources", "by kind")
        graph.connect("ends", ("states and sources", 1))
        for kind, layer in enumerate(self.network.propagation.edges):
            name = f"edges of kind {kind}"
            graph.add(name, updates.of_repeated(layer))
            graph.connect(("by kind", kind), name)
            graph.connect(name, ("edge outputs", kind))
        graph.connect(("ends", 1), ("edge outputs", kinds))
        graph.connect(("states", 1), ("edge outputs", kinds + 1))
        graph.chain("edge outputs", "sum", "update")

    def _add_matrix(self, graph: MessageGraph, updates: Updates) -> None:
        graph.add("states and matrix", ConcatenatePayloads())
        graph.add("edge outputs", updates.of_repeated(_Matrix(self.network.propagation.edges)))
        graph.add("and states", ConcatenatePayloads())
        graph.chain("states", "states and matrix", "edge outputs", "and states", "update")
        graph.connect("edges", ("states and matrix", 1))
        graph.connect(("states", 1), ("and states", 1))


Output: TypeAlias = tuple[str, int]


def add_readout(
    graph: MessageGraph,
    network: GraphNetwork,
    updates: Updates,
    workers: int,
    states: Output,
    given: tuple[Output, Output],
) -> None:
    """Add the readout and the loss. given: the outputs that send the features, and the answers."""
    features, answers = given
    graph.add("with features", ConcatenatePayloads())
    graph.connect(states, "with features")
    graph.connect(features, ("with features", 1))
    graph.add("readout", updates.of(network.readout), workers - 1)
    graph.add("loss", Loss(lambda scores, *expected: network.loss(scores, *expected)), workers - 1)
    graph.chain("with features", "readout", "loss", CONTROLLER)
    graph.connect(answers, ("loss", 1))


def _summed(*given: Tensor) -> tuple[Tensor, Tensor]:
    """given: the messages of each kind of edge, the targets, and the states, which are passed on."""
    *messages, targets, states = given
    return scatter_messages(states, targets, messages), states


class _Matrix(nn.Module):
    """Dense propagation."""

    def __init__(self, edges: Sequence[nn.Linear]):
        super().__init__()
        self._edges = nn.ModuleList(edges)

    def forward(self, states: Tensor, adjacency: Tensor) -> Tensor:
        """[all nodes, hidden] See `DensePropagation`."""
        return dense_propagation(typed(self._edges, nn.Linear), adjacency).messages(states)
