"""Properties of partly given trees, compared with an enumeration of all trees."""

from itertools import product

import pytest
from plain_parser import all_trees, dominates, is_tree, projective_trees

from parser.treebank.conllu_faults import cycles
from parser.treebank.partial_trees import possible_roots, put_back, words_above_last
from parser.treebank.sentence import NO_HEAD
from parser.treebank.set_aside import set_aside


def all_given(words):
    """All ways of giving heads to words, without words that are their own heads."""
    choices = ([head for head in range(NO_HEAD, words + 1) if head != word] for word in range(1, words + 1))
    yield from product(*choices)


def agrees(tree, heads):
    return all(given in (NO_HEAD, head) for given, head in zip(heads, tree, strict=True))


@pytest.mark.parametrize("words", [1, 2, 3, 4, pytest.param(5, marks=pytest.mark.extended)])
def test_heads_are_set_aside_if_no_tree_has_all(words):
    trees = projective_trees(words)
    for heads in all_given(words):
        fitting = [tree for tree in trees if agrees(tree, heads)]
        if cycles(heads) or heads.count(0) > 1:
            assert not fitting
            continue
        aside = set_aside(heads)
        assert bool(fitting) is not bool(aside)
        kept = [NO_HEAD if word in aside else head for word, head in enumerate(heads, 1)]
        fitting = [tree for tree in trees if agrees(tree, kept)]
        assert fitting
        for word in aside:  # with this one, too, there would be no tree
            more = [heads[word - 1] if place == word else head for place, head in enumerate(kept, 1)]
            assert not any(agrees(tree, more) for tree in trees)
        roots = {tree.index(0) + 1 for tree in fitting}
        assert possible_roots(kept) == [word in roots for word in range(1, words + 1)]


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_words_above_the_last_one(words):
    for heads in all_given(words):
        if not cycles(heads):
            plain = [0 if head == NO_HEAD else head for head in heads]
            expected = [dominates(plain, word, words) for word in range(1, words + 1)]
            assert words_above_last(heads) == expected


def test_the_arc_from_root_is_kept_and_the_shorter_one_of_two_that_cross():
    assert set_aside((3, NO_HEAD, NO_HEAD, 2)) == [4]  # the arcs have equal lengths
    assert set_aside((4, NO_HEAD, NO_HEAD, NO_HEAD, 3)) == [1]
    assert set_aside((3, 0, NO_HEAD)) == [1]


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_heads_that_are_put_back_leave_a_tree(words):
    letters = "abcd"[:words]
    for tree in all_trees(words):
        for heads in all_given(words):
            if cycles(heads) or 0 in heads:
                continue
            found, labels = put_back(tree, letters, heads)
            assert is_tree(found)
            assert agrees(found, heads)
            assert sorted(labels) == list(letters)
            assert labels[found.index(0)] == letters[tree.index(0)]
            if agrees(tree, heads):
                assert tuple(found) == tree


def test_a_word_whose_head_is_put_back_takes_its_dependents_along():
    assert put_back((2, 0, 2, 3), "abcd", (-1, -1, 1, -1)) == ([2, 0, 1, 3], list("abcd"))


def test_what_is_between_a_word_and_its_head_takes_its_place():
    # 1 ◄ 2, 3 ◄ 1, 4 ◄ 3: with 1 below 4, the nearest to 1 that may move is 3.
    assert put_back((2, 0, 1, 3), "abcd", (4, -1, -1, -1)) == ([4, 0, 2, 3], list("abcd"))
    assert put_back((2, 0, 1, 3), "abcd", (4, -1, 1, -1)) == ([4, 0, 1, 2], list("abcd"))
