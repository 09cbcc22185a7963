import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.forest_lstm import SortedForest, StackForest


@st.composite
def forests(draw):
    """Parents of nodes in random order, -1 for roots."""
    count = draw(st.integers(1, 40))
    parents = [draw(st.integers(-1, node - 1)) for node in range(count)]
    names = draw(st.permutations(range(count)))
    shuffled = [0] * count
    for node, parent in enumerate(parents):
        shuffled[names[node]] = names[parent] if parent >= 0 else -1
    return shuffled


def depth_of(parents, node):
    return 0 if parents[node] < 0 else 1 + depth_of(parents, parents[node])


@given(forests())
def test_a_forest_runs_level_by_level_and_finds_its_parents(parents):
    depth = [depth_of(parents, node) for node in range(len(parents))]
    forest, order, position = SortedForest.of(torch.tensor(parents), torch.tensor(depth))
    assert order[position].tolist() == list(range(len(parents)))
    assert len(forest.levels) == max(depth) + 1
    seen = []
    for number, (nodes, above) in enumerate(forest.levels):
        here = order[nodes].tolist()
        seen += here
        assert {depth[node] for node in here} == {number}
        if number:
            assert [parents[node] for node in here] == order[above][forest.parent[nodes]].tolist()
            assert set(order[above].tolist()) == {parents[node] for node in here}
    assert sorted(seen) == list(range(len(parents)))


def test_the_forest_of_a_stack():
    # push a, push b, pop, push c, replace the two on top by d, hold
    read = torch.tensor([[0, 0, 0, 0, 2, 0]])
    move = torch.tensor([[1, 1, -1, 1, -1, 0]])
    forest = StackForest.of(read, move)
    assert forest.is_node.tolist() == [[True, True, True, False, True, True, False]]
    assert forest.parent[forest.is_node].tolist() == [-1, 0, 1, 1, 0]
    assert forest.depth[forest.is_node].tolist() == [0, 1, 2, 2, 1]
    assert forest.top.tolist() == [[0, 1, 2, 1, 4, 5, 5]]
