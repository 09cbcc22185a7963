"""Directed graphs with node features and several kinds of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


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
