import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.speed.tasks.graphs.network import (
    Edge,
    LabelledGraph,
    both_ways,
    labelled_graph,
    with_isolated_nodes,
)

FEATURES = torch.eye(3)
EDGES = [Edge(0, 2, 1), Edge(2, 0, 1)]


def edges_of(graph: LabelledGraph) -> list[Edge]:
    columns = (graph.sources.tolist(), graph.kinds.tolist(), graph.targets.tolist())
    return [Edge(*edge) for edge in zip(*columns, strict=True)]


@st.composite
def graphs(draw) -> LabelledGraph:
    nodes = draw(st.integers(1, 6))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.builds(Edge, node, st.integers(0, 3), node), max_size=9))
    return labelled_graph(torch.rand(nodes, draw(st.integers(0, 3))), edges)


def test_a_graph():
    graph = labelled_graph(FEATURES, EDGES)
    assert (graph.nodes, graph.edges) == (3, 2)
    assert graph.sources.dtype == graph.kinds.dtype == graph.targets.dtype == np.int64
    assert edges_of(graph) == EDGES
    without_edges = labelled_graph(FEATURES, [])
    assert (without_edges.nodes, without_edges.edges) == (3, 0)
    assert edges_of(both_ways(without_edges)) == []
    assert labelled_graph(torch.zeros(0, 2), []).nodes == 0
    with pytest.raises(ValueError, match="sources must be numbers from 0 to -1, and one is 0"):
        labelled_graph(torch.zeros(0, 2), [Edge(0, 0, 0)])
    with pytest.raises(ValueError, match="a graph of 3 nodes cannot be made one of 2"):
        with_isolated_nodes(graph, 2)


def numbers(*given: int) -> np.ndarray:
    return np.array(given, dtype=np.int64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": torch.zeros(3)}, r"features must be float32 .*, and are torch.float32 \[3\]"),
        ({"features": torch.zeros(3, 1).long()}, r"features must be .*, and are torch.int64 \[3, 1\]"),
        ({"kinds": numbers(0)}, r"kinds must be int64 \[2\], and are int64 \[1\]"),
        ({"targets": numbers(0, 1, 2)}, r"targets must be int64 \[2\], and are int64 \[3\]"),
        ({"sources": numbers(0, 1).reshape(1, 2)}, r"sources must be int64 \[2\], and are int64 \[1, 2\]"),
        ({"kinds": np.array([0.0, 1.0])}, r"kinds must be int64 \[2\], and are float64 \[2\]"),
        ({"sources": numbers(0, 3)}, "sources must be numbers from 0 to 2, and one is 3"),
        ({"targets": numbers(-1, 0)}, "targets must be numbers from 0 to 2, and one is -1"),
        ({"kinds": numbers(4, -2)}, "kinds must be numbers from 0, and one is -2"),
    ],
)
def test_parts_that_do_not_fit(changes, message):
    parts = {"features": FEATURES, "sources": numbers(0, 2), "kinds": numbers(2, 0), "targets": numbers(1, 1)}
    with pytest.raises(ValueError, match=f"^{message}$"):
        LabelledGraph(**parts | changes)


@given(graphs())
def test_both_ways(graph):
    both = both_ways(graph)
    forward = edges_of(graph)
    assert edges_of(both) == forward + [Edge(target, kind, source) for source, kind, target in forward]
    assert both.features is graph.features


@given(graphs(), st.integers(0, 5))
def test_isolated_nodes(graph, added):
    found = with_isolated_nodes(graph, graph.nodes + added)
    assert found.nodes == graph.nodes + added
    assert edges_of(found) == edges_of(graph)
    torch.testing.assert_close(found.features[: graph.nodes], graph.features, rtol=0, atol=0)
    assert found.features[graph.nodes :].count_nonzero() == 0
