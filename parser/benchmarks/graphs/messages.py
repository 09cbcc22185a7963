"""Gated graph networks as graphs of messages (Gaunt et al. 2017): a loop over the steps.

With messages of batches, propagation is sparse or dense, and the position in the state is (step, steps). With
messages of single nodes and edges, as in the paper's figure, positions are, where `edge` counts from 1:

    node      (step, steps, node, edges to it, 0, nodes, and for each edge from it: *route)
    route     (kind, edges of this kind, edge, target, edges to the target)
    edge      (step, steps, *route)
    kind      (step, steps, kind, edges of this kind, and for each of them: edge, target, edges to the target)
    incoming  (step, steps, target, edges to it, edge)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from parser.batching.messages.asynchronous_updates import Updates
from parser.batching.messages.control_flow import (
    Broadcast,
    Condition,
    Discard,
    FlatMap,
    Join,
    add_loop,
    each_step,
)
from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.grouping import ConcatenatePayloads, Group, Split, Ungroup
from parser.batching.messages.message import MessageState
from parser.batching.messages.message_graph import CONTROLLER, MessageGraph
from parser.batching.messages.node import Loss, Losses, Transform
from parser.benchmarks.graphs.network import (
    GraphBatch,
    GraphNetwork,
    adjacencies,
    dense_propagation,
    scatter_messages,
)

ROUTE = 5
"""The length of a route."""
NODE_POSITION = 6
"""The length of a node's position before the routes."""


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
        graph.add("sum", Transform(lambda _, *given: _sum_of_kinds(*given)))
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


def _sum_of_kinds(*given: Tensor) -> tuple[Tensor, Tensor]:
    """given: the messages of each kind of edge, the targets, and the states, which are passed on."""
    *messages, targets, states = given
    return scatter_messages(states, targets, messages), states


class _Matrix(nn.Module):
    """Dense propagation."""

    def __init__(self, edges: Sequence[nn.Linear]):
        super().__init__()
        self._layers = list(edges)
        self._edges = nn.ModuleList(edges)

    def forward(self, states: Tensor, adjacency: Tensor) -> Tensor:
        """[all nodes, hidden] See `DensePropagation`."""
        return dense_propagation(self._layers, adjacency).messages(states)


class EdgeMessages:
    """A graph network that can be trained by messages of single nodes and edges."""

    def __init__(self, network: GraphNetwork, nodes: int):
        """nodes: the mean number of nodes in a batch; the state update gets a gradient from each."""
        self.network, self._nodes = network, nodes

    def losses(self, batch: GraphBatch) -> Losses:
        return self.network.losses(batch)

    def replicas(self) -> Sequence[Sequence[nn.Module]]:
        """No replicas."""
        return ()

    def instance(self, number: int, batch: GraphBatch, training: bool) -> Instance:
        states = self.network.begin(batch.features).split(1)
        nodes = len(states)
        entries = [
            *(
                Entry(0, (state,), (0, self.network.steps, *position))
                for state, position in zip(states, _positions(batch), strict=True)
            ),
            Entry(1, (batch.features,), (nodes,)),
            Entry(2, (batch.graph, batch.answers), (nodes,)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """State updates run on another worker than propagation, if there are two."""
        graph, network = MessageGraph(), self.network
        graph.add(CONTROLLER, Controller(outputs=3))
        graph.add("states", Broadcast(2))
        of_each_node = updates._replace(in_loop=(updates.in_loop or updates.after) * self._nodes)
        graph.add("update", of_each_node.of_repeated(network.propagation.update), workers - 1)
        done = add_loop(graph, CONTROLLER, "states", "update")
        self._add_propagation(graph, updates)
        graph.add("all nodes", Group(lambda state: state.at(state.position[5]), _only))
        graph.connect(done, "all nodes")
        add_readout(graph, network, updates, workers, ("all nodes", 0), ((CONTROLLER, 1), (CONTROLLER, 2)))
        return graph

    def _add_propagation(self, graph: MessageGraph, updates: Updates) -> None:
        """Add the nodes from `states` to `update`."""
        layers = self.network.propagation.edges
        graph.add("has edges", Condition(lambda state: int(len(state.position) > NODE_POSITION)))
        graph.add("no edges", Discard())
        graph.add("edges", FlatMap(_edges_from))
        graph.add("by kind", Group(_kind, lambda state: state.position[3], _with_edges))
        graph.add("kind", Condition(lambda state: state.position[2], len(layers)))
        graph.add("any kind", Join(len(layers)))
        graph.add("single edges", Ungroup(_edges_of_kind))
        graph.add("own or incoming", Join())
        graph.add("by target", Group(_target, lambda state: 1 + state.position[3], _own_state))
        graph.add("sum", Transform(lambda _, rows: _sum_of_edges(rows)))
        graph.chain("states", "has edges", "no edges")
        graph.connect(("has edges", 1), "edges")
        graph.chain("edges", "by kind", "kind")
        for kind, layer in enumerate(layers):
            name = f"edges of kind {kind}"
            graph.add(name, updates.of_repeated(layer))
            graph.connect(("kind", kind), name)
            graph.connect(name, ("any kind", kind))
        graph.connect(("states", 1), "own or incoming")
        graph.chain("any kind", "single edges")
        graph.connect("single edges", ("own or incoming", 1))
        graph.chain("own or incoming", "by target", "sum", "update")


def _positions(batch: GraphBatch) -> list[tuple[int, ...]]:
    """For each node its position, without (step, steps)."""
    nodes = len(batch.graph)
    to_node = torch.bincount(batch.targets, minlength=nodes).tolist()
    routes: list[list[int]] = [[] for _ in range(nodes)]
    edge, targets = 0, batch.targets.tolist()
    for kind, sources in enumerate(batch.sources):
        for source in sources.tolist():
            target = targets[edge]
            edge += 1
            routes[source] += (kind, len(sources), edge, target, to_node[target])
    return [(node, to_node[node], 0, nodes, *routes[node]) for node in range(nodes)]


def _edges_from(state: MessageState) -> list[MessageState]:
    position = state.position
    return [
        state.at(*position[:2], *position[start : start + ROUTE])
        for start in range(NODE_POSITION, len(position), ROUTE)
    ]


def _kind(state: MessageState) -> MessageState:
    """Of an edge: (step, steps, kind, edges of this kind)."""
    return state.at(*state.position[:4])


def _with_edges(kind: MessageState, edges: Sequence[MessageState]) -> MessageState:
    return kind.at(*kind.position, *(number for edge in edges for number in edge.position[4:]))


def _edges_of_kind(state: MessageState) -> list[tuple[MessageState, int]]:
    """Incoming edges of their targets, with one row each."""
    step, steps, _, _, *edges = state.position
    triples = zip(edges[::3], edges[1::3], edges[2::3], strict=True)
    return [(state.at(step, steps, target, to_target, edge), 1) for edge, target, to_target in triples]


def _target(state: MessageState) -> MessageState:
    """Of a node itself, or of an incoming edge: (step, steps, target, edges to it)."""
    return state.at(*state.position[:4])


def _own_state(_: MessageState, members: Sequence[MessageState]) -> MessageState:
    """The state of the node, which precedes those of incoming edges."""
    return members[0]


def _only(state: MessageState) -> int:
    (number,) = state.position
    return number


def _sum_of_edges(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the messages to a node, and its state, [1, hidden] each.

    rows: [1 + edges, hidden], the state first
    """
    return rows[1:].sum(0, keepdim=True), rows[:1]
