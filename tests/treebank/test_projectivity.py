"""Projectivity, and pseudo-projective parsing."""

from __future__ import annotations

import plain_parser as plain
import pytest
from extended import examples, first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import all_trees

from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import crossing, deprojectivize, is_projective, projectivize, projectivized
from parser.treebank.sentence import MARK


@pytest.mark.parametrize("length", range(1, 6))
def test_agrees_with_the_definition_on_every_tree(length):
    for heads in all_trees(length):
        assert is_projective(heads) == plain.is_projective(heads), heads


def names(count):
    return tuple("abcdefgh"[:count])


@pytest.mark.parametrize("length", first_of(range(1, 7), 5))
def test_every_small_tree_is_recovered_if_all_labels_differ(length):
    for heads in all_trees(length):
        lifted_heads, labels = projectivize(heads, names(length))
        assert plain.is_projective(lifted_heads), heads
        assert (lifted_heads.index(0), lifted_heads.count(0)) == (heads.index(0), 1)
        assert deprojectivize(lifted_heads, labels) == (heads, names(length))
        if plain.is_projective(heads):
            assert (lifted_heads, labels) == (heads, names(length))


def test_the_example_of_nivre_and_nilsson():
    # The beginning of their example, "Z nich je jen jedna na kvalitu".
    heads, labels = (3, 1, 0, 5, 3, 3), ("AuxP", "Atr", "Pred", "AuxZ", "Sb", "AuxP")
    crossing = (5, 1, 0, 5, 3, 3)  # "Z" depends on "jedna", and "je" lies between
    assert projectivize(heads, labels) == (heads, labels)
    assert projectivize(crossing, labels) == (heads, (f"AuxP{MARK}Sb", *labels[1:]))


@st.composite
def trees(draw, longest=12):
    """Random trees with one root, of any depth, projective or not."""
    length = draw(st.integers(1, longest))
    order = draw(st.permutations(range(1, length + 1)))
    heads = [0] * length
    for place, word in enumerate(order[1:], 1):
        heads[word - 1] = order[draw(st.integers(max(0, place - draw(st.integers(1, place))), place - 1))]
    return tuple(heads)


@examples(400)
@given(trees())
def test_lifting_follows_its_definition(heads):
    assert crossing(heads) == plain.crossing(heads)
    found, labels = projectivize(heads, ["x"] * len(heads))
    assert found == plain.lifted_heads(heads)
    assert [MARK in label for label in labels] == [now != was for now, was in zip(found, heads, strict=True)]


@examples(400)
@given(trees(), st.data())
def test_deprojectivizing_follows_its_definition_for_any_labels(heads, data):
    length = len(heads)
    labels = data.draw(st.lists(st.sampled_from("ab"), min_size=length, max_size=length))
    wanted = data.draw(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=length, max_size=length))
    marked = [label + MARK + want if want else label for label, want in zip(labels, wanted, strict=True)]
    assert deprojectivize(heads, marked) == (
        plain.deprojectivized_heads(heads, labels, wanted),
        tuple(labels),
    )


def test_a_word_is_not_moved_below_itself():
    heads, labels = (0, 1, 2), ("root", f"x{MARK}y", "y")
    assert deprojectivize(heads, labels) == ((0, 1, 2), ("root", "x", "y"))


def test_the_root_is_not_moved_and_loses_the_extension_of_its_label():
    assert deprojectivize((0, 1), (f"root{MARK}x", "x")) == ((0, 1), ("root", "x"))


def test_the_new_head_is_the_first_in_breadth_first_order():
    #       1 root: 2 y, 5 z; below 2: 3 y; below 5: 4 y;  6 is lifted from a y
    heads = (0, 1, 2, 5, 1, 1)
    assert deprojectivize(heads, ("root", "y", "y", "y", "z", f"x{MARK}y"))[0] == (0, 1, 2, 5, 1, 2)
    assert deprojectivize(heads, ("root", "q", "y", "y", "z", f"x{MARK}y"))[0] == (0, 1, 2, 5, 1, 3)


def test_words_closer_to_the_root_move_first():
    # Word 2 is attached to 4 first, so that 3, which searches the descendants of 4, finds it.
    heads, labels = (0, 1, 4, 1), ("root", f"y{MARK}w", f"x{MARK}y", "w")
    assert deprojectivize(heads, labels) == ((0, 4, 2, 1), ("root", "y", "x", "w"))


@pytest.mark.parametrize(
    ("name", "moved", "back"),
    [
        ("UD_English-EWT/en_ewt-ud-dev.conllu", 36, 35),
        ("UD_Ancient_Greek-PTNK/grc_ptnk-ud-dev.conllu", 76, 76),
    ],
)
def test_real_trees(treebanks, name, moved, back):
    sentences = read_treebank(str(treebanks / name))
    lifted_sentences = [projectivized(sentence) for sentence in sentences]
    assert all(plain.is_projective(sentence.heads) for sentence in lifted_sentences)
    pairs = [
        (was, now)
        for before, after in zip(sentences, lifted_sentences, strict=True)
        for was, now, label, again in zip(
            before.heads,
            deprojectivize(after.heads, after.labels)[0],
            after.labels,
            before.labels,
            strict=True,
        )
        if label != again
    ]
    assert (len(pairs), sum(was == now for was, now in pairs)) == (moved, back)
