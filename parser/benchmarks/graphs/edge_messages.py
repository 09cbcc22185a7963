"""Gated graph networks by messages of single nodes and edges, as in the figure of Gaunt et al. (2017).

Positions in the states of messages, where `edge` counts from 1:

    node      (step, steps, node, edges to it, 0, nodes, and for each edge from it: *route)
    route     (kind, edges of this kind, edge, target, edges to the target)
    edge      (step, steps, *route)
    kind      (step, steps, kind, edges of this kind, and for each of them: edge, target, edges to the target)
    incoming  (step, steps, target, edges to it, edge)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.grouping import Group, Ungroup
from parser.batching.messages.loop import add_loop
from parser.batching.messages.loss import Losses
from parser.batching.messages.message import MessageState
from parser.batching.messages.parameterised import Updates
from parser.batching.messages.routing import Broadcast, Condition, Discard, FlatMap, Join
from parser.batching.messages.transform import Transform
from parser.benchmarks.graphs.messages import add_readout
from parser.benchmarks.graphs.network import GraphBatch, GraphNetwork

ROUTE = 5
"""The length of a route."""
HEAD = 6
"""The length of a node's position before the routes."""


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
        graph.add("has edges", Condition(lambda state: int(len(state.position) > HEAD)))
        graph.add("no edges", Discard())
        graph.add("edges", FlatMap(_edges_from))
        graph.add("by kind", Group(_kind, lambda state: state.position[3], _with_edges))
        graph.add("kind", Condition(lambda state: state.position[2], len(layers)))
        graph.add("any kind", Join(len(layers)))
        graph.add("single edges", Ungroup(_edges_of_kind))
        graph.add("own or incoming", Join())
        graph.add("by target", Group(_target, lambda state: 1 + state.position[3], _own_state))
        graph.add("sum", Transform(lambda _, rows: _summed(rows)))
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
        for start in range(HEAD, len(position), ROUTE)
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


def _summed(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the messages to a node, and its state, [1, hidden] each.

    rows: [1 + edges, hidden], the state first
    """
    return rows[1:].sum(0, keepdim=True), rows[:1]
