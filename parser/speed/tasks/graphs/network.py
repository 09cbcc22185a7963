"""Directed graphs with several kinds of edges, and gated graph networks over them (Li et al. 2016).

A batch of graphs is one graph with several connected components.

In each step, every node sums the messages of its incoming edges, which are linear in the source state with
weights by kind of edge, and updates its state by a GRU. Propagation is sparse, along edges; or dense, by one
matrix per graph between all elements of its states, as in the comparison of Gaunt et al. 2017, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.messages.message_graph import Losses


class Edge(NamedTuple):
    source: int
    kind: int
    target: int


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph, compared by identity. Raises ValueError if its parts are inconsistent."""

    features: Tensor
    """[nodes, features] float32."""
    sources: np.ndarray
    """[edges] Source nodes, int64."""
    kinds: np.ndarray
    """[edges] From 0, int64."""
    targets: np.ndarray
    """[edges] Target nodes, int64."""

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.dtype != torch.float32:
            shown = f"{self.features.dtype} {list(self.features.shape)}"
            raise ValueError(f"features must be float32 [nodes, features], and are {shown}")
        for name in ("sources", "kinds", "targets"):
            column = getattr(self, name)
            if column.shape != (self.edges,) or column.dtype != np.int64:
                shown = f"{column.dtype} {list(column.shape)}"
                raise ValueError(f"{name} must be int64 [{self.edges}], and are {shown}")
        _check_numbers("sources", self.sources, self.nodes - 1)
        _check_numbers("targets", self.targets, self.nodes - 1)
        _check_numbers("kinds", self.kinds)

    @property
    def nodes(self) -> int:
        return len(self.features)

    @property
    def edges(self) -> int:
        return self.sources.size


def _check_numbers(name: str, numbers: np.ndarray, last: int | None = None) -> None:
    """Raises ValueError for a number below 0 or above `last`."""
    if not numbers.size:
        return
    for number in (numbers.min(), numbers.max()):
        if number < 0 or (last is not None and number > last):
            limit = "" if last is None else f" to {last}"
            raise ValueError(f"{name} must be numbers from 0{limit}, and one is {number}")


def labelled_graph(features: Tensor, edges: Sequence[Edge]) -> LabelledGraph:
    """features: [nodes, features], float32. Raises ValueError for edges to nodes that do not exist."""
    columns = np.array(edges, dtype=np.int64).reshape(-1, 3).T  # [3, edges]
    return LabelledGraph(features, *columns.copy())


def both_ways(graph: LabelledGraph) -> LabelledGraph:
    """Add the reverse of each edge, with the same kind, after all edges."""
    return replace(
        graph,
        sources=np.concatenate([graph.sources, graph.targets]),
        kinds=np.tile(graph.kinds, 2),
        targets=np.concatenate([graph.targets, graph.sources]),
    )


def with_isolated_nodes(graph: LabelledGraph, nodes: int) -> LabelledGraph:
    """Pad to `nodes` nodes.

    The new nodes have no edges and zero features. Raises ValueError if the graph has more nodes.
    """
    if nodes < graph.nodes:
        raise ValueError(f"a graph of {graph.nodes} nodes cannot be made one of {nodes}")
    missing = graph.features.new_zeros(nodes - graph.nodes, graph.features.shape[1])
    return replace(graph, features=torch.cat([graph.features, missing]))


TOLERANCE = 0.1
"""The tolerance, in standard deviations of the target."""


class GraphBatch(NamedTuple):
    features: Tensor
    """[nodes, features]"""
    sources: tuple[Tensor, ...]
    """For each kind of edge, the source nodes [edges]."""
    targets: Tensor
    """[all edges] The target nodes, sorted by kind."""
    graph: Tensor
    """[nodes] The graph of each node, in increasing order."""
    answers: Tensor
    """[graphs] int64, nodes; or float32, numbers."""


class Propagation(nn.Module):
    """The parameters that all steps share."""

    def __init__(self, kinds: int, hidden_size: int):
        super().__init__()
        self.edges = [nn.Linear(hidden_size, hidden_size) for _ in range(kinds)]
        """The layer of each kind of edge."""
        self._edges = nn.ModuleList(self.edges)
        self.update = nn.GRUCell(hidden_size, hidden_size)


class Readout(nn.Module):
    """[nodes] A score per node or, if gated, a contribution to the number of its graph, which sums them."""

    def __init__(self, features: int, hidden_size: int, gated: bool):
        super().__init__()
        self.score = nn.Linear(hidden_size + features, 1)
        self.gate = nn.Linear(hidden_size + features, 1) if gated else None

    def forward(self, states: Tensor, features: Tensor) -> Tensor:
        """states: [nodes, hidden]; features: [nodes, features]"""
        both = torch.cat([states, features], dim=1)  # [nodes, hidden + features]
        score = self.score(both)
        return (score * torch.sigmoid(self.gate(both)) if self.gate else score).squeeze(1)


class GraphNetwork(nn.Module):
    """selects: whether answers are nodes, by a softmax over the nodes of a graph, or else numbers."""

    def __init__(self, features: int, kinds: int, hidden_size: int, steps: int, selects: bool):
        """Raises ValueError if the features do not fit into the states that they initialise."""
        super().__init__()
        if features > hidden_size:
            raise ValueError(f"{features} features do not fit into states of {hidden_size}")
        self.hidden_size, self.steps = hidden_size, steps
        self.propagation = Propagation(kinds, hidden_size)
        self.readout = Readout(features, hidden_size, gated=not selects)
        self.loss = selection_losses if selects else regression_losses

    def begin(self, features: Tensor) -> Tensor:
        """[nodes, hidden] The initial states: the features, padded with zeros."""
        return F.pad(features, (0, self.hidden_size - features.shape[1]))

    def losses(self, batch: GraphBatch) -> Losses:
        """The losses, computed by sparse propagation."""
        return self.loss(self.scores(batch), batch.graph, batch.answers)

    def scores(self, batch: GraphBatch) -> Tensor:
        """[nodes] The output of the readout, computed by sparse propagation; see `Readout`."""
        states, layers = self.begin(batch.features), self.propagation.edges
        for _ in range(self.steps):
            messages = sparse_messages(layers, states, batch.sources, batch.targets)
            states = self.propagation.update(messages, states)
        return self.readout(states, batch.features)

    def losses_densely(self, batch: GraphBatch) -> Losses:
        """The losses, computed by dense propagation. Raises ValueError for graphs of different sizes."""
        dense = dense_propagation(self.propagation.edges, adjacencies(batch))
        states = self.begin(batch.features)
        for _ in range(self.steps):
            states = self.propagation.update(dense.messages(states), states)
        return self.loss(self.readout(states, batch.features), batch.graph, batch.answers)


def sparse_messages(
    layers: Sequence[nn.Linear], states: Tensor, sources: Sequence[Tensor], targets: Tensor
) -> Tensor:
    """[nodes, hidden] The sum of the messages to each node.

    layers, sources: one for each kind of edge, sources [edges]; states: [nodes, hidden]; targets: [all edges]
    """
    messages = [
        layer(states[source]) for layer, source in zip(layers, sources, strict=True)
    ]  # [edges, hidden]
    return torch.zeros_like(states).index_add(0, targets, torch.cat(messages))


def adjacencies(batch: GraphBatch) -> Tensor:
    """[graphs, kinds, nodes, nodes] The number of edges of each kind, [target, source] in the last two axes.

    Raises ValueError for graphs of different sizes.
    """
    graphs, kinds = len(batch.answers), len(batch.sources)
    nodes = len(batch.graph) // graphs
    if not torch.equal(batch.graph, torch.arange(graphs).repeat_interleave(nodes)):
        raise ValueError("a dense matrix needs graphs with the same number of nodes")
    kind = torch.arange(kinds).repeat_interleave(torch.tensor(list(map(len, batch.sources))))
    source, target = torch.cat(batch.sources), batch.targets
    indices = (source // nodes, kind, target % nodes, source % nodes)
    counts = torch.zeros(graphs, kinds, nodes, nodes)
    return counts.index_put_(indices, torch.ones(len(source)), accumulate=True)


class DensePropagation(NamedTuple):
    """The tensors that are the same in all steps."""

    matrix: Tensor
    """[graphs, nodes * hidden, nodes * hidden]"""
    constant: Tensor
    """[graphs, nodes, hidden]"""

    def messages(self, states: Tensor) -> Tensor:
        """[all nodes, hidden] Like `sparse_messages`, but by one matrix product per graph.

        states: [all nodes, hidden].
        """
        graphs, nodes, _ = self.constant.shape
        messages = (self.matrix @ states.view(graphs, -1, 1)).view(graphs, nodes, -1)
        return (messages + self.constant).flatten(0, 1)


def dense_propagation(edges: Sequence[nn.Linear], adjacency: Tensor) -> DensePropagation:
    """adjacency: [graphs, kinds, nodes, nodes]"""
    graphs, _, nodes, _ = adjacency.shape
    weights, biases = (torch.stack([getattr(layer, name) for layer in edges]) for name in ("weight", "bias"))
    matrix = torch.einsum("gkts,kij->gtisj", adjacency, weights)  # [graphs, nodes, hidden, nodes, hidden]
    return DensePropagation(
        matrix.reshape(graphs, nodes * weights.shape[1], -1), adjacency.sum(3).transpose(1, 2) @ biases
    )


def selection_losses(scores: Tensor, graph: Tensor, answers: Tensor) -> Losses:
    """Cross entropy over the nodes of each graph.

    scores, graph: [nodes]; answers: [graphs], nodes of the batch.
    """
    best = scores.new_full((len(answers),), -torch.inf).scatter_reduce(0, graph, scores, "amax")  # [graphs]
    total = torch.zeros_like(best).index_add(0, graph, (scores - best.detach()[graph]).exp())
    loss = (total.log() + best.detach() - scores[answers]).sum()
    equal = torch.zeros_like(answers).index_add(0, graph, (scores == best[graph]).long())  # [graphs]
    right = (scores[answers] == best) & (equal == 1)  # nodes without edges have equal scores
    return Losses(loss, int(right.sum()), len(answers))


def regression_losses(parts: Tensor, graph: Tensor, answers: Tensor) -> Losses:
    """Squared errors.

    Predictions within the tolerance count as right. parts, graph: [nodes]; answers: [graphs]
    """
    errors = regression_errors(parts, graph, answers)
    return Losses(errors.square().sum(), int((errors.abs() < TOLERANCE).sum()), len(answers))


def regression_errors(parts: Tensor, graph: Tensor, answers: Tensor) -> Tensor:
    """[graphs] The sum of the parts of each graph, minus its answer. parts, graph: [nodes]"""
    return torch.zeros_like(answers).index_add(0, graph, parts) - answers


Answer: TypeAlias = int | float


def batch_of(graphs: Sequence[LabelledGraph], answers: Sequence[Answer], kinds: int) -> GraphBatch:
    """Batch graphs. answers: one number or node per graph. Raises ValueError for edges outside `kinds`."""
    sizes = np.array([graph.nodes for graph in graphs])
    starts = np.cumsum(sizes) - sizes
    kind = np.concatenate([graph.kinds for graph in graphs])
    if kind.max(initial=0) >= kinds:
        raise ValueError(f"an edge of kind {kind.max()}, where there are {kinds} kinds")
    ends = [
        (graph.sources + start, graph.targets + start) for graph, start in zip(graphs, starts, strict=True)
    ]
    source, target = map(np.concatenate, zip(*ends, strict=True))
    by_kind = [np.flatnonzero(kind == number) for number in range(kinds)]
    are_nodes = isinstance(answers[0], int)
    return GraphBatch(
        torch.cat([graph.features for graph in graphs]),
        tuple(torch.from_numpy(source[edges]) for edges in by_kind),
        torch.from_numpy(target[np.concatenate(by_kind)]),
        torch.from_numpy(np.repeat(np.arange(len(graphs)), sizes)),
        torch.from_numpy(starts + answers) if are_nodes else torch.tensor(answers),
    )
