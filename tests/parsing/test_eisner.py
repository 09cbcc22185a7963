"""The projective trees with the greatest sum, compared with an enumeration of all trees."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import projective_trees as all_projective_trees

from parser.parsing.eisner import is_projective_tree, projective_trees


def greatest(scores):
    """The projective tree with the greatest sum. scores: [words, words + 1]"""
    trees = [tree for tree in all_projective_trees(len(scores)) if tree.count(0) == 1]
    return max(trees, key=lambda tree: sum(own[head] for own, head in zip(scores, tree, strict=True)))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_trees_are_the_best_of_all(lengths, seed):
    longest = max(lengths)
    scores = np.random.default_rng(seed).normal(size=(len(lengths), longest, longest + 1))
    found = projective_trees(scores, np.array(lengths))
    for own, length, heads in zip(scores, lengths, found, strict=True):
        assert heads == list(greatest(own[:length, : length + 1]))


def test_what_is_impossible_is_not_chosen():
    scores = np.random.default_rng(0).normal(size=(1, 6, 7))
    scores[0, range(6), range(1, 7)] = -np.inf
    scores[0, 2, :] = -np.inf
    scores[0, 2, 5] = 0.0
    [heads] = projective_trees(scores, np.array([6]))
    assert heads[2] == 5


def test_long_sentences():
    """A chain of two hundred words."""
    scores = np.zeros((1, 200, 201))
    scores[0, range(200), range(200)] = 1.0
    assert projective_trees(scores, np.array([200])) == [list(range(200))]


def test_heads_that_are_a_projective_tree_are_known():
    for length in range(1, 6):
        trees = {tuple(tree) for tree in all_projective_trees(length) if tree.count(0) == 1}
        for heads in product(range(length + 1), repeat=length):
            assert is_projective_tree(heads) == (heads in trees)
