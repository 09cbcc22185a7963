"""Gated graph networks as graphs of messages (Gaunt et al. 2017): a loop over the steps.

With messages of batches, propagation is sparse or dense, and the position in the state is (step, steps). With
messages of single nodes and edges, as in the paper's figure, the messages of edges are summed by target and
grouped again, so that one call of the GRU updates all nodes. The positions, with `edge` counted from 1, are:

    graph     (step, steps, and for each node: edges to it, length of the routes, *routes)
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
    ConcatenatePayloads,
    Condition,
    Discard,
    FlatMap,
    Group,
    Join,
    Ungroup,
    add_loop,
    each_step,
)
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Losses,
    MessageGraph,
    MessageState,
    Transform,
)
from parser.batching.messages.workers import Controller, Entry, Instance
from parser.speed.tasks.graphs.network import (
    GraphBatch,
    GraphNetwork,
    adjacencies,
    dense_propagation,
    sparse_messages,
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
        """State updates run on another worker than all else, if there are two."""
        graph, network = MessageGraph(), self.network
        propagation = _Propagation(network.propagation.edges, self._dense)
        graph.add(CONTROLLER, Controller(outputs=4))
        graph.add("each step", FlatMap(each_step))
        graph.add("states", Broadcast(2))
        graph.add("states and edges", ConcatenatePayloads())
        graph.add("propagation", updates.of_repeated(propagation))
        graph.add("messages and states", ConcatenatePayloads())
        graph.add("update", updates.of_repeated(network.propagation.update), workers - 1)
        graph.chain("states", "states and edges", "propagation", "messages and states", "update")
        graph.connect((CONTROLLER, 1), "each step")
        graph.connect("each step", ("states and edges", 1))
        graph.connect(("states", 1), ("messages and states", 1))
        done = add_loop(graph, CONTROLLER, "states", "update")
        add_readout(graph, network, updates, done, ((CONTROLLER, 2), (CONTROLLER, 3)))
        return graph


Output: TypeAlias = tuple[str, int]


def add_readout(
    graph: MessageGraph, network: GraphNetwork, updates: Updates, states: Output, given: tuple[Output, Output]
) -> None:
    """Add the readout and the loss. given: the outputs that send the features, and the answers."""
    features, answers = given
    graph.add("with features", ConcatenatePayloads())
    graph.connect(states, "with features")
    graph.connect(features, ("with features", 1))
    graph.add("readout", updates.of(network.readout))
    graph.add("loss", Loss(lambda scores, *expected: network.loss(scores, *expected)))
    graph.chain("with features", "readout", "loss", CONTROLLER)
    graph.connect(answers, ("loss", 1))


class _Propagation(nn.Module):
    """Sparse or dense propagation."""

    def __init__(self, edges: Sequence[nn.Linear], dense: bool):
        super().__init__()
        self._layers, self._edges, self._dense = list(edges), nn.ModuleList(edges), dense

    def forward(self, states: Tensor, *edges: Tensor) -> Tensor:
        """[nodes, hidden] states: [nodes, hidden]; edges: the sources of each kind, and all targets; or,
        if dense, the adjacency, see `adjacencies`."""
        if self._dense:
            return dense_propagation(self._layers, *edges).messages(states)
        *sources, targets = edges
        return sparse_messages(self._layers, states, sources, targets)


class EdgeMessages:
    """A graph network that can be trained by messages of single nodes and edges."""

    def __init__(self, network: GraphNetwork):
        self.network = network

    def losses(self, batch: GraphBatch) -> Losses:
        return self.network.losses(batch)

    def instance(self, number: int, batch: GraphBatch, training: bool) -> Instance:
        steps, routes = self.network.steps, _all_routes(batch)
        entries = [
            Entry(0, (self.network.begin(batch.features),), (0, steps, *routes)),
            Entry(1, (batch.features,), (steps, steps, *routes)),
            Entry(2, (batch.graph, batch.answers), (steps, steps, *routes)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """State updates run on another worker than all else, if there are two."""
        graph, network = MessageGraph(), self.network
        graph.add(CONTROLLER, Controller(outputs=3))
        graph.add("single nodes", Ungroup(_nodes))
        graph.add("states", Broadcast(2))
        graph.add("all nodes", Group(_graph_of, lambda group: group.position[2], _with_routes))
        graph.add("update", updates.of_repeated(network.propagation.update), workers - 1)
        graph.chain("single nodes", "states")
        layers = network.propagation.edges
        graph.add("has edges", Condition(lambda state: int(len(state.position) > NODE_POSITION)))
        graph.add("no edges", Discard())
        graph.add("edges", FlatMap(_edges_from))
        graph.add("by kind", Group(_begin_of_position, lambda group: group.position[3], _with_edges))
        graph.add("kind", Condition(lambda state: state.position[2], len(layers)))
        graph.add("any kind", Join(len(layers)))
        graph.add("single edges", Ungroup(_edges_of_kind))
        graph.add("own or incoming", Join())
        # The state of the node itself comes before its incoming edges.
        sums = Group(_begin_of_position, lambda group: 1 + group.position[3], lambda _, states: states[0])
        graph.add("by target", sums)
        # The sum of the messages to a node, and its state, [1, hidden] each, from rows [1 + edges, hidden].
        graph.add("sum", Transform(lambda _, rows: (rows[1:].sum(0, keepdim=True), rows[:1])))
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
        graph.chain("own or incoming", "by target", "sum", "all nodes", "update")
        done = add_loop(graph, CONTROLLER, "single nodes", "update")
        add_readout(graph, network, updates, done, ((CONTROLLER, 1), (CONTROLLER, 2)))
        return graph


def _all_routes(batch: GraphBatch) -> list[int]:
    """The part of a graph's position after (step, steps)."""
    nodes = len(batch.graph)
    to_node = torch.bincount(batch.targets, minlength=nodes).tolist()
    routes: list[list[int]] = [[] for _ in range(nodes)]
    edge, targets = 0, batch.targets.tolist()
    for kind, sources in enumerate(batch.sources):
        for source in sources.tolist():
            target = targets[edge]
            edge += 1
            routes[source] += (kind, len(sources), edge, target, to_node[target])
    return [number for node in range(nodes) for number in (to_node[node], len(routes[node]), *routes[node])]


def _nodes(state: MessageState) -> list[tuple[MessageState, int]]:
    """The states of a graph's nodes, with one row each."""
    step, steps, *rest = state.position
    parts, place = [], 0
    while place < len(rest):
        to_node, length = rest[place : place + 2]
        parts.append((to_node, rest[place + 2 : place + 2 + length]))
        place += 2 + length
    return [
        (state.at(step, steps, node, to_node, 0, len(parts), *routes), 1)
        for node, (to_node, routes) in enumerate(parts)
    ]


def _graph_of(state: MessageState) -> MessageState:
    """The state by which nodes are grouped, with the position (step, steps, nodes)."""
    step, steps, _, _, _, nodes, *_ = state.position
    return state.at(step, steps, nodes)


def _with_routes(graph: MessageState, nodes: Sequence[MessageState]) -> MessageState:
    """The state of a graph, with the position from those of its nodes; the inverse of `_nodes`."""
    step, steps, _ = graph.position
    routes = [(node.position[3], node.position[NODE_POSITION:]) for node in nodes]
    return graph.at(step, steps, *(number for to, own in routes for number in (to, len(own), *own)))


def _edges_from(state: MessageState) -> list[MessageState]:
    position = state.position
    return [
        state.at(*position[:2], *position[start : start + ROUTE])
        for start in range(NODE_POSITION, len(position), ROUTE)
    ]


def _begin_of_position(state: MessageState) -> MessageState:
    """The state by which edges are grouped, (step, steps, kind, edges of this kind); or by which a node and
    the edges to it are grouped, (step, steps, target, edges to it)."""
    return state.at(*state.position[:4])


def _with_edges(kind: MessageState, edges: Sequence[MessageState]) -> MessageState:
    return kind.at(*kind.position, *(number for edge in edges for number in edge.position[4:]))


def _edges_of_kind(state: MessageState) -> list[tuple[MessageState, int]]:
    """The states of edges as incoming edges of their targets, with one row each."""
    step, steps, _, _, *edges = state.position
    triples = zip(edges[::3], edges[1::3], edges[2::3], strict=True)
    return [(state.at(step, steps, target, to_target, edge), 1) for edge, target, to_target in triples]
