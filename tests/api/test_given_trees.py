"""Heads and labels that programs give, and what trees must have."""

import asyncio
import re

import conllu
import pytest

from parser import Constraints
from parser.api.parser import load
from parser.parsing.constraints import counts_for
from parser.treebank.conllu import read_treebank

MODEL = "tests/model"
CAT = ["The", "cat", "sleeps", "."]
FREE = [None] * 4


@pytest.fixture(scope="module")
def english():
    return load(MODEL, device="cpu")


def test_heads_and_labels_stay_and_the_others_are_found(english):
    assert english.parse(CAT).heads == (2, 3, 0, 3)
    tree = english.parse(CAT, heads=[None, 1, None, None], labels=["obj", None, "_", None])
    assert tree.heads[1] == 1
    assert tree.labels[0] == "obj"
    assert tree.heads.count(0) == 1
    assert english.parse(CAT, heads=FREE, labels=FREE) == english.parse(CAT)
    assert english.parse(CAT, heads=[3, 3, 0, 3]).heads == (3, 3, 0, 3)


def test_many_sentences_of_which_some_have_heads(english):
    given = [CAT, {"words": CAT, "heads": [None, 1, None, None]}] * 40
    trees = list(english.parse_all(given, probabilities=True))
    alone = [english.parse(CAT), english.parse(CAT, heads=[None, 1, None, None])]
    assert [(tree.heads, tree.labels) for tree in trees] == [(tree.heads, tree.labels) for tree in alone] * 40


def test_alternatives_are_of_no_given_tree(english):
    with pytest.raises(ValueError, match="heads: alternatives are those of any tree"):
        english.alternatives(CAT, 2, heads=[None, 1, None, None])


def test_tasks_of_asyncio_give_heads(english):
    assert asyncio.run(english.parse_async(CAT, heads=[None, 1, None, None])).heads[1] == 1
    with pytest.raises(ValueError, match=r"^sentence 1: word 1: the heads of the words 1, 2 form a cycle$"):
        asyncio.run(english.parse_async(CAT, heads=[2, 1, None, None]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heads": [1]}, "4 words, but 1 heads"),
        ({"labels": ["det"] * 5}, "4 words, but 5 labels"),
        ({"heads": "____"}, "heads: a list is needed, not str"),
        ({"labels": {"det"}}, "labels: a list is needed, not set"),
        ({"heads": [None, True, None, None]}, "heads, number 2: True is not the number of a word"),
        ({"heads": [None, "1", None, None]}, "heads, number 2: '1' is not the number of a word"),
        ({"heads": [None, -1, None, None]}, "heads, number 2: HEAD '-1' is not the number of a word"),
        ({"heads": [None, 5, None, None]}, "heads, number 2: HEAD 5 is beyond the last word, 4"),
        ({"heads": [None, 2, None, None]}, "heads, number 2: word 2 is its own head"),
        ({"labels": [None, 3, None, None]}, "labels, number 2: 3 is no string"),
        ({"labels": [None, "a↑b", None, None]}, "labels, number 2: DEPREL 'a↑b' has the character ↑.*"),
        ({"heads": [2, 1, None, None]}, "word 1: the heads of the words 1, 2 form a cycle"),
        ({"heads": [0, 0, None, None]}, "word 2: the words 1, 2 are all given as the root.*"),
        ({"heads": [3, 4, None, None]}, "word 2: no projective tree has the arc from word 4 to word 2 .*"),
        (
            {"labels": ["nosuch", None, None, None]},
            "word 1: DEPREL 'nosuch': the model knows no such label.*",
        ),
    ],
)
def test_what_no_tree_has_is_refused(english, given, message):
    with pytest.raises(ValueError, match=f"^sentence 2: {message}$"):
        list(english.parse_all([CAT, {"words": CAT, **given}]))


def test_an_arc_that_crosses_is_put_back(english):
    wanted = Constraints(non_projective="given")
    assert english.parse(CAT, heads=[3, 4, None, None], constraints=wanted).heads[:2] == (3, 4)


def test_what_can_not_be_kept_is_named(english):
    wanted = Constraints(at_most_one=("nsubj",), not_root=("VERB",))
    tree = english.parse(CAT, heads=[3, 3, 0, 3], labels=["nsubj", "nsubj", None, None], constraints=wanted)
    assert tree.violations == ("", "at-most-one:nsubj", "not-root", "")
    lines = tree.to_conllu().splitlines()
    assert [line.split("\t")[-1] for line in lines[:4]] == [
        "_", "Violation=at-most-one:nsubj", "Violation=not-root", "_",
    ]  # fmt: skip
    free = english.parse(CAT, constraints=wanted)
    assert free.upos[free.heads.index(0)] != "VERB"
    assert free.violations == ()


def test_all_of_many_sentences_have_limits(english):
    def has_two(tree):
        own = [
            head for head, label in zip(tree.heads, tree.labels, strict=True) if counts_for(label, "punct")
        ]
        return len(own) > len(set(own))

    given = [one.forms for one in read_treebank("data/quickstart/dev.conllu")]
    limits = Constraints(at_most_one=("punct",))
    assert any(map(has_two, english.parse_all(given)))
    assert not any(map(has_two, english.parse_all(given, constraints=limits)))
    with pytest.raises(ValueError, match="nsbj"):
        english.parse_all(given, constraints=Constraints(at_most_one=("nsbj",)))  # no tree was asked for


def test_sentences_of_conllu_keep_what_is_given_if_asked_to(english):
    [tokens] = conllu.parse(english.parse(CAT).to_conllu())
    tokens[0]["head"], tokens[1]["head"], tokens[1]["deprel"] = 3, None, None
    kept = english.parse(tokens, constraints=Constraints(keep="given"))
    assert [token["head"] for token in kept] == [3, 3, 0, 3]
    assert kept[0]["deprel"] == tokens[0]["deprel"]
    assert [token["head"] for token in english.parse(tokens)] == [2, 3, 0, 3]
    assert tokens[1]["head"] is None
    with pytest.raises(ValueError, match="heads: a TokenList has its own"):
        english.parse(tokens, heads=[1, 2, 3, 4])
    wanted = Constraints(keep="given", at_most_one=("nsubj",))
    for token in tokens[:2]:
        token["head"], token["deprel"] = 3, "nsubj"
    assert english.parse(tokens, constraints=wanted)[1]["misc"]["Violation"] == "at-most-one:nsubj"


def test_what_the_model_can_not_do_is_refused(english):
    message = re.escape("at most one 'nsbj': the model knows no such label, but acl:relcl, ")
    with pytest.raises(ValueError, match=message):
        english.parse(CAT, constraints=Constraints(at_most_one=("nsbj",)))
