"""Constraints that are learned from trees, against plain counting."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import all_trees

from parser.models.learned_constraints import (
    LEAST_EXPECTED,
    LEAST_WITH_VALUE,
    OF_ONE_WORD,
    ConstrainedTree,
    LearnedConstraints,
)
from parser.treebank.conllu import blocks, parse_block

LABELS, TAGS = ["nsubj", "obj", "case", "fixed", ""], ["NOUN", "VERB", "ADP"]
"""No constraint has a label that is empty."""


def pairs(first, second):
    return st.frozensets(st.tuples(st.sampled_from(first), st.sampled_from(second)), max_size=6)


CONSTRAINTS = st.builds(
    LearnedConstraints,
    tags=pairs(LABELS[:-1], TAGS),
    parents=pairs(LABELS[:-1], LABELS[:-1]),
    siblings=pairs(LABELS[:-1], LABELS[:-1]).map(
        lambda found: frozenset((min(pair), max(pair)) for pair in found)
    ),
    following=st.frozensets(st.sampled_from(LABELS[:-1]), max_size=2),
    preceding=st.frozensets(st.sampled_from(LABELS[:-1]), max_size=2),
)


@st.composite
def constrained_trees(draw, longest=5):
    heads = draw(st.sampled_from(all_trees(draw(st.integers(1, longest)))))
    labels = [draw(st.sampled_from(LABELS)) for _ in heads]
    return heads, labels, [draw(st.sampled_from(TAGS)) for _ in heads]


def plainly_broken(known, heads, labels, upos):
    """The words that take part in a broken constraint, pair by pair."""
    words, broken = range(1, len(heads) + 1), set()

    def label(word):
        return labels[word - 1] if word else ""

    for word in words:
        head = heads[word - 1]
        is_first = any(heads[other - 1] == word and label(other) in OF_ONE_WORD for other in words)
        if (label(word), upos[word - 1]) in known.tags and not is_first:
            broken.add(word)
        if label(head) and label(word) in (known.following if head > word else known.preceding):
            broken.add(word)
        if head and (label(head), label(word)) in known.parents:
            broken |= {head, word}
    for one, other in combinations(words, 2):
        pair = tuple(sorted((label(one), label(other))))
        if heads[one - 1] == heads[other - 1] != 0 and pair in known.siblings:
            broken |= {one, other}
    return sorted(broken)


@given(CONSTRAINTS, st.lists(constrained_trees(), min_size=1, max_size=4))
def test_broken_constraints(known, trees):
    for heads, labels, upos in trees * 2:  # once more, with what is kept of the first time
        tree = ConstrainedTree.of(heads, labels, upos)
        assert known.broken(tree) == plainly_broken(known, heads, labels, upos)


@given(CONSTRAINTS)
def test_round_trip(known):
    assert LearnedConstraints.from_json(known.as_json()) == known


@pytest.mark.parametrize("text", ["{}", "[]", '{"tags": [["a"]]}', "no JSON"])
def test_broken_files_are_refused(text):
    with pytest.raises(ValueError, match="_ConstraintsContent"):
        LearnedConstraints.from_json(text)


@given(constrained_trees(6), st.data())
def test_arcs_that_cross(tree, data):
    heads = tree[0]
    word, head = (data.draw(st.integers(1, len(heads))) for _ in range(2))
    inside = range(min(word, head) + 1, max(word, head))
    crossed = any(
        (other in inside) != (its_head in inside) and {other, its_head}.isdisjoint({word, head})
        for other, its_head in enumerate(heads, 1)
        if other != word
    )
    assert ConstrainedTree.of(*tree).crosses(word, head) == crossed


def treebank(*sentences):
    """Sentences of words such as `dogs NOUN 2 nsubj dog`."""
    text = "".join(
        "\n".join(
            f"{number}\t{form}\t{lemma}\t{upos}\t_\t_\t{head}\t{label}\t_\t_"
            for number, (form, upos, head, label, lemma) in enumerate(map(str.split, words), 1)
        )
        + "\n\n"
        for words in sentences
    )
    return [parse_block(block, tree=True) for block in blocks(text.splitlines(keepends=True))]


VERBAL = ["dogs NOUN 2 nsubj dog", "chase VERB 0 root chase", "the DET 4 det the", "cats NOUN 2 obj cat"]


def test_what_train_never_has_though_it_is_frequent():
    train = treebank(*[VERBAL] * 2 * LEAST_WITH_VALUE)
    known = LearnedConstraints.learned(train)
    assert not any(known.broken(ConstrainedTree.of(one.heads, one.labels, one.upos)) for one in train)
    assert {("nsubj", "VERB"), ("det", "NOUN"), ("root", "DET")} <= known.tags
    assert ("nsubj", "nsubj") in known.siblings
    assert ("nsubj", "obj") not in known.siblings
    assert ("det", "obj") in known.parents
    assert ("obj", "det") not in known.parents
    assert known.following == {"obj"}
    assert known.preceding == {"nsubj", "det"}
    assert known.values["det"] == {"upos": "DET", "lemma": "the"}  # no word has XPOS or features


def test_what_is_rare_is_not_ruled_out():
    known = LearnedConstraints.learned(treebank(*[VERBAL] * (LEAST_EXPECTED - 1)))
    assert known == LearnedConstraints()


def test_what_dev_has_is_not_ruled_out():
    known = LearnedConstraints.learned(treebank(*[VERBAL] * 2 * LEAST_WITH_VALUE))
    odd = ["it VERB 2 nsubj it", "is AUX 0 root be", "this DET 4 det this", "cats NOUN 2 nsubj cat"]
    left = known.without_broken(treebank(odd))
    assert known.tags - left.tags == {("nsubj", "VERB"), ("root", "AUX")} & known.tags
    assert known.siblings - left.siblings == {("nsubj", "nsubj")}
    assert known.preceding - left.preceding == {"nsubj"}
    assert known.parents - left.parents == {("nsubj", "det")}
    assert "lemma" not in left.values["det"]


def test_columns_of_words_with_certain_labels():
    known = LearnedConstraints(values={"goeswith": {"lemma": "_", "feats": "_"}})
    tags = {"upos": ("X", "X"), "lemma": ("with", "out")}
    assert known.with_values(tags, ("root", "goeswith")) == {"upos": ("X", "X"), "lemma": ("with", "_")}
    assert known.with_values(tags, ("root", "flat")) is tags
