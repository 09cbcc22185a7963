import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.levels import batches, depths, heights


@st.composite
def structures(draw):
    """The nodes that each node uses. Nodes are in random order."""
    count = draw(st.integers(1, 25))
    used_by = [draw(st.sets(st.integers(0, max(0, node - 1)), max_size=3)) for node in range(count)]
    used_by[0] = set()
    names = draw(st.permutations(range(count)))
    return {names[node]: {names[other] for other in used} for node, used in enumerate(used_by)}


def edges(structure):
    pairs = [(other, node) for node, used in structure.items() for other in used]
    return np.array(pairs, np.int64).reshape(-1, 2).T


def height_of(structure, node):
    return max((1 + height_of(structure, other) for other in structure[node]), default=0)


def users_of(structure):
    return {node: {user for user, used in structure.items() if node in used} for node in structure}


@given(structures())
def test_heights_and_depths_are_the_longest_ways(structure):
    nodes = range(len(structure))
    found = heights(len(structure), *edges(structure))
    assert found.tolist() == [height_of(structure, node) for node in nodes]
    users = users_of(structure)
    assert depths(len(structure), *edges(structure)).tolist() == [height_of(users, node) for node in nodes]


@given(structures(), st.data())
def test_a_structure_with_a_cycle_has_no_levels(structure, data):
    node = data.draw(st.sampled_from(sorted(structure)))
    below = {node}
    while any(structure[other] - below for other in below):
        below |= set().union(*(structure[other] for other in below))
    structure[data.draw(st.sampled_from(sorted(below)))].add(node)
    with pytest.raises(ValueError, match="a cycle"):
        heights(len(structure), *edges(structure))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2))))
def test_batches_are_of_equal_keys_and_in_their_order(nodes):
    level, kind = np.array(nodes, np.int64).reshape(-1, 2).T
    expected = [[place for place, node in enumerate(nodes) if node == keys] for keys in sorted(set(nodes))]
    assert [which.tolist() for which in batches(level, kind)] == expected


def test_edges_of_nodes_that_do_not_exist():
    for used, user, message in (
        ([0, 5], [1, 0], "edge 1 is of node 5, but there are 2 nodes, from 0 on"),
        ([0], [2], "edge 0 is of node 2"),
        ([-1], [0], "edge 0 is of node -1"),
        ([0, 1], [1], "2 used nodes and 1 users"),
    ):
        for find in (heights, depths):
            with pytest.raises(ValueError, match=message if find is heights else "edge|users"):
                find(2, used, user)
    assert heights(2, [0], [1]).tolist() == [0, 1]
