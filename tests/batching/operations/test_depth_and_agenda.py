"""The lengths of schedules. Their results are compared in `test_equal_to_torch.py`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
from chosen_device import DEVICE
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.operations.cells import CellOperation
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Writer

WIDTH, MOST_CHILDREN = 2, 5
WEIGHTS = [torch.zeros(WIDTH, WIDTH * children) for children in range(MOST_CHILDREN + 1)]
Tree = tuple["Tree", ...]
TREES = st.recursive(
    st.just(()), lambda trees: st.lists(trees, min_size=1, max_size=MOST_CHILDREN).map(tuple), max_leaves=12
)


def node(writer: Writer, *children: Value) -> Value:
    """A node of a tree: a product with weights for this number of children, then a sum over the children."""
    state = writer.tanh(writer.linear(WEIGHTS[len(children)], *children))
    for child in children:
        state = writer.add(state, writer.multiply(writer.sigmoid(state), child))
    return writer.tanh(state)


def templates(as_cells: bool) -> list[Template]:
    """A template for each number of children from 1."""
    traced = [Template.trace(node, (WIDTH,) * children) for children in range(1, MOST_CHILDREN + 1)]
    return [Template.of(CellOperation(own), own.taken) if as_cells else own for own in traced]


def batches_of_trees(method: str, trees: Sequence[Tree], write: Callable[..., Value]) -> int:
    """The number of batches. write: records a node: (graph, *children)."""
    graph = Graph(method, DEVICE)

    def state(tree: Tree) -> Value:
        children = [state(child) for child in tree]
        return write(graph, *children) if children else graph.add_values(torch.zeros(1, WIDTH))[0]

    for tree in trees:
        state(tree)
    return len(graph.schedule())


def by_template(as_cells: bool) -> Callable[..., Value]:
    own = templates(as_cells)
    return lambda graph, *children: graph.apply(own[len(children) - 1], children)[0]


WAYS = {"operations": node, "templates": by_template(False), "cells": by_template(True)}


def some_trees(seed: int) -> list[Tree]:
    drawn = random.Random(seed)

    def tree(height: int) -> Tree:
        children = drawn.randint(1, MOST_CHILDREN) if height and drawn.random() < 0.6 else 0
        return tuple(tree(height - 1) for _ in range(children))

    return [tree(8) for _ in range(32)]


@pytest.mark.parametrize("way", WAYS)
@given(trees=st.lists(TREES, max_size=6))
def test_the_agenda_is_never_longer_than_by_depth(way: str, trees: list[Tree]) -> None:
    assert batches_of_trees("agenda", trees, WAYS[way]) <= batches_of_trees("depth", trees, WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_trees_of_many_shapes_take_fewer_batches_by_agenda(way: str) -> None:
    """A template for each number of children must not keep their equal operations apart."""
    for seed in range(4):
        trees = some_trees(seed)
        assert batches_of_trees("agenda", trees, WAYS[way]) < batches_of_trees("depth", trees, WAYS[way])
