"""Kinds of errors, compared with plain counts."""

import random
from dataclasses import replace

from plain_parser import sentence

from parser.evaluation.errors import (
    ARC_LENGTH,
    DISTANCE,
    GROUPINGS,
    KNOWN,
    LABEL,
    SENTENCE_LENGTH,
    TAG,
    distances_to_root,
    find_errors,
)
from parser.evaluation.known import KnownValues
from parser.evaluation.scores import score
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.conllu import read_treebank

TREEBANK = "data/quickstart/test.conllu"


def wrong(tree, generator):
    """The tree with some heads and labels changed, perhaps with a cycle."""
    words = len(tree.heads)
    heads = [generator.randrange(words + 1) if generator.random() < 0.3 else head for head in tree.heads]
    labels = ["obj:agent" if generator.random() < 0.2 else label for label in tree.labels]
    return ParsedTree(tuple(heads), tuple(labels))


def test_groups_add_up_to_the_scores():
    gold = read_treebank(TREEBANK)
    generator = random.Random(1)
    trees = [wrong(one, generator) for one in gold]
    errors = find_errors(gold, trees, KnownValues(str.islower))
    scores = score(gold, trees)
    assert errors.scores == scores
    for grouping in GROUPINGS:
        groups = dict(errors.ordered(grouping))
        assert sum(group.words for group in groups.values()) == scores.words
        assert sum(group.correct_heads for group in groups.values()) == scores.correct_heads
        assert sum(group.correct_arcs for group in groups.values()) == scores.correct_arcs
        assert len(groups) == len(errors.groups[grouping]), "a group has no place in the order"
    wrong_words = scores.words - scores.correct_arcs
    assert errors.labels.counts.total() == scores.correct_heads - scores.correct_arcs
    assert errors.head_tags.counts.total() == scores.words - scores.correct_heads
    assert sum(one.errors for one in errors.sentences) == wrong_words
    assert {name: group.las for name, group in errors.ordered(ARC_LENGTH)} == scores.length_las()


def test_a_small_example():
    gold = replace(
        sentence((2, 0, 2, 3, 2), labels=["nsubj:pass", "root", "obl", "case", "punct"]),
        forms=("Cats", "sleep", "here", "in", "."),
        upos=("NOUN", "VERB", "NOUN", "ADP", "PUNCT"),
    )
    tree = ParsedTree((2, 0, 2, 2, 3), ("obj", "root", "obl", "case", "punct"))
    errors = find_errors([gold], [tree], KnownValues("sleep".__eq__))
    assert errors.labels.counts == {("nsubj", "obj"): 1}
    assert errors.head_tags.counts == {("NOUN", "VERB"): 1, ("VERB", "NOUN"): 1}
    assert {name: group.words for name, group in errors.ordered(DISTANCE)} == {"0": 1, "1": 3, "2": 1}
    assert [name for name, _ in errors.ordered(SENTENCE_LENGTH)] == ["1-5"]
    known, unknown = (group for _, group in errors.ordered(KNOWN))
    assert (known.words, known.las, unknown.words, unknown.uas, unknown.las) == (1, 100, 4, 50, 25)
    assert {name: group.las for name, group in errors.ordered(LABEL)}["nsubj"] == 0
    assert {name: group.words for name, group in errors.ordered(TAG)}["NOUN"] == 2
    assert errors.sentences == [(5, 3)]
    without = find_errors([gold], [tree], KnownValues(bool), punctuation=False)
    assert without.sentences == [(4, 2)]


def test_the_worst_sentences():
    gold = [sentence((0,)), sentence((2, 0, 2)), sentence((2, 0, 2, 2, 2, 2)), sentence((2, 0))]
    found = [(0,), (2, 0, 1), (2, 0, 1, 1, 2, 2), (0, 1)]
    trees = [ParsedTree(heads, one.labels) for heads, one in zip(found, gold, strict=True)]
    errors = find_errors(gold, trees, KnownValues(bool))
    assert [one.errors for one in errors.sentences] == [0, 1, 2, 2]
    assert errors.worst(2) == [3, 2]
    assert errors.worst(9) == [3, 2, 1]


def test_distances_to_the_root():
    assert distances_to_root((2, 0, 2, 3)) == [1, 0, 1, 2]
    assert distances_to_root(()) == []
    length = 5000
    assert distances_to_root(tuple(range(length))) == list(range(length))  # a chain, without recursion
