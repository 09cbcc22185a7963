"""Wrong tags, features and lemmas, and what training lacks: small examples, and plain counts."""

import random
from dataclasses import replace
from pathlib import Path

from plain_parser import sentence

from parser.evaluation.errors import ARC, find_errors
from parser.evaluation.known import KnownValues
from parser.evaluation.scores import score
from parser.evaluation.tally import EXAMPLES
from parser.evaluation.value_errors import (
    ABSENT,
    EXTRA,
    KNOWN_FORM,
    LACKING,
    MISSING,
    NEW_LEMMA,
    NOT_OF_FORM,
    OF_FORM,
    OTHER_VALUE,
    TRAINED_LEMMA,
    UNKNOWN_FORM,
    different_features,
    lemma_kind,
)
from parser.models.loading import load_model
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.conllu import read_treebank
from parser.treebank.lemma_rules import lemma_rule
from parser.treebank.vocabulary import Vocabulary

TREEBANK = "data/quickstart/test.conllu"
GOLD = replace(
    sentence((2, 0, 2, 2), labels=["nsubj", "root", "obl:tmod", "vocative"]),
    forms=("Cats", "slept", "nights", "Bob"),
    lemmas=("cat", "sleep", "night", "Bob"),
    upos=("NOUN", "VERB", "NOUN", "PROPN"),
    feats=("Number=Plur", "Mood=Ind|Tense=Past", "Number=Plur", "_"),
)
TREE = ParsedTree(
    (2, 0, 2, 2),
    ("obj", "root", "obl", "nsubj"),
    tags={
        "upos": ("NOUN", "NOUN", "NOUN", "NOUN"),
        "feats": ("Number=Sing", "Tense=Past", "Number=Plur", "Number=Sing"),
        "lemma": ("cats", "sleep", "night", "bob"),
    },
)


def training(**values):
    """A treebank with two of the forms, and these values in place of all."""
    lemmas = {"slept": {"sleep"}, "nights": {"nights", "cats"}}
    return KnownValues({"slept", "nights"}.__contains__, values, lemmas)


def groups_of(errors, column):
    return {name: (group.words, group.right) for name, group in errors.values.groups[column].items()}


def test_words_are_known_unknown_or_lacking():
    known = training(upos={"NOUN", "VERB"}, deprel={"nsubj", "root", "obl", "vocative"})
    errors = find_errors([GOLD], [TREE], known)
    assert groups_of(errors, "upos") == {KNOWN_FORM: (2, 1), UNKNOWN_FORM: (1, 1), LACKING: (1, 0)}
    assert groups_of(errors, "deprel") == {KNOWN_FORM: (1, 1), UNKNOWN_FORM: (2, 0), LACKING: (1, 1)}
    assert groups_of(errors, "feats") == {KNOWN_FORM: (2, 1), UNKNOWN_FORM: (2, 0), LACKING: (0, 0)}
    assert "xpos" not in errors.values.groups
    assert {column: tally.counts for column, tally in errors.values.lacking.items()} == {
        "upos": {("PROPN",): 1},
        "deprel": {("obl:tmod",): 1},
    }
    assert errors.values.confusions["upos"].counts == {("VERB", "NOUN"): 1}
    assert errors.labels.counts == {("nsubj", "obj"): 1, ("vocative", "nsubj"): 1}
    without = find_errors([GOLD], [TREE], training(deprel={"nsubj", "root", "obl"}))
    assert without.labels.counts == {("nsubj", "obj"): 1}
    example = errors.values.lacking["upos"].examples["PROPN",][0]
    assert (example.text, example.sentence, example.line) == ("Bob", 0, GOLD.line)


def test_a_lemma_is_lacking_if_its_rule_is():
    known = training(lemma={lemma_rule("Cats", "cat")})
    errors = find_errors([GOLD], [TREE], known)
    assert groups_of(errors, "lemma")[LACKING] == (2, 1)  # "sleep" is right, whatever the rule
    assert errors.values.lacking["lemma"].counts == {("sleep",): 1, ("Bob",): 1}
    assert errors.values.confusions["lemma"].counts == {("cat", "cats"): 1}
    blank = replace(GOLD, lemmas=("_",) * 4)
    assert groups_of(find_errors([blank], [TREE], known), "lemma") == {
        KNOWN_FORM: (2, 2), UNKNOWN_FORM: (2, 2), LACKING: (0, 0)
    }  # fmt: skip


def test_features_are_compared_by_attribute():
    errors = find_errors([GOLD], [TREE], training())
    assert errors.values.features.counts == {
        ("Number", "Plur", "Sing"): 1,
        ("Mood", "Ind", ABSENT): 1,
        ("Number", ABSENT, "Sing"): 1,
    }
    assert errors.values.attributes() == {
        "Number": {EXTRA: 1, OTHER_VALUE: 1, UNKNOWN_FORM: 2},
        "Mood": {MISSING: 1, UNKNOWN_FORM: 0},
    }
    assert list(errors.values.attributes()) == ["Number", "Mood"]
    assert list(different_features("B=1|A=1,2", "A=1|B=1")) == [("A", "1,2", "1")]
    assert list(different_features("_", "_")) == []


def test_kinds_of_wrong_lemmas():
    known = training()
    assert lemma_kind("slept", "sleep", "slept", known) == OF_FORM
    assert lemma_kind("nights", "night", "nights", known) == NOT_OF_FORM
    assert lemma_kind("Cats", "cat", "cats", known) == TRAINED_LEMMA
    assert lemma_kind("Bob", "Bob", "bob", known) == NEW_LEMMA
    without = replace(known, lemmas={})
    assert lemma_kind("slept", "sleep", "slept", without) == KNOWN_FORM
    assert lemma_kind("Bob", "Bob", "bob", without) == UNKNOWN_FORM
    errors = find_errors([GOLD], [TREE], known)
    assert errors.values.lemma_kinds.counts == {(TRAINED_LEMMA,): 1, (NEW_LEMMA,): 1}


def test_errors_add_up_to_the_scores():
    gold = read_treebank(TREEBANK)
    generator = random.Random(1)

    def changed(values):
        return tuple(generator.choice(values) if generator.random() < 0.3 else value for value in values)

    trees = [
        ParsedTree(
            one.heads, one.labels, tags={name: changed(one.column(name)) for name in ("upos", "lemma")}
        )
        for one in gold
    ]
    lacking = {"DET"}
    known = KnownValues(str.islower, {"upos": {tag for one in gold for tag in one.upos} - lacking})
    errors = find_errors(gold, trees, known)
    scores = score(gold, trees)
    for column, measure in (("upos", "upos"), ("lemma", "lemmas")):
        groups = errors.values.groups[column]
        assert sum(group.words for group in groups.values()) == scores.words
        assert sum(group.right for group in groups.values()) == scores.correct_words[measure]
        wrong = groups[KNOWN_FORM].words - groups[KNOWN_FORM].right
        wrong_unknown = groups[UNKNOWN_FORM].words - groups[UNKNOWN_FORM].right
        confusions = errors.values.confusions[column]
        assert confusions.counts.total() == wrong + wrong_unknown
        assert confusions.unknown.total() == wrong_unknown
        for kind, examples in confusions.examples.items():
            assert 1 <= len({example.text for example in examples}) == len(examples) <= EXAMPLES
            for example in examples:
                place = gold[example.sentence], trees[example.sentence].tags[column]
                assert (example.identifier, example.line) == (place[0].identifier, place[0].line)
                triples = zip(place[0].forms, place[0].column(column), place[1], strict=True)
                assert (example.text, *kind) in triples
    assert errors.values.lemma_kinds.counts.total() == errors.values.confusions["lemma"].counts.total()
    assert errors.values.groups["upos"][LACKING].words == sum(one.upos.count("DET") for one in gold)


def test_crossing_arcs_and_their_sentences():
    crossing = sentence((3, 4, 0, 3))  # the arc from 4 to 2 passes over 3; lifted, 2 depends on 3
    projective = sentence((2, 0))
    gold = [crossing, crossing, crossing, projective]
    found = [crossing.heads, (3, 3, 0, 3), (3, 1, 0, 3), (0, 1)]
    trees = [ParsedTree(heads, one.labels) for heads, one in zip(found, gold, strict=True)]
    errors = find_errors(gold, trees, KnownValues(bool))
    scores = errors.scores.as_dict()
    assert (scores["crossing_arcs"], scores["nonprojective_sentences"]) == (3, 3)
    assert (errors.scores.correct_crossing_heads, errors.scores.lifted_crossing_heads) == (1, 1)
    assert scores["nonprojective_las"] == 100 * 10 / 12
    assert scores["projective_las"] == 0
    arcs = {name: (group.words, group.correct_arcs) for name, group in errors.ordered(ARC)}
    assert arcs == {"projective": (11, 9), "non-projective": (3, 1)}


def test_a_vocabulary_tells_what_training_has():
    lifted = replace(GOLD, labels=("nsubj", "root", "obl:tmod", "obj↑xcomp"))
    predicted = ["upos", "lemma"]
    vocabulary = Vocabulary.build([lifted], ["form"], predicted=predicted)
    known = KnownValues.of(replace(load_model(Path("tests/model")), vocabulary=vocabulary))
    assert known.is_form("slept")
    assert not known.is_form("sleeps")
    assert not known.lacks("deprel", "obj")
    assert known.lacks("deprel", "obl")
    assert not known.lacks("xpos", "anything")
    assert known.lacks("upos", "X")
    assert known.lemmas == {form: {lemma} for form, lemma in zip(GOLD.forms, GOLD.lemmas, strict=True)}
    assert known.is_lemma("Bob")
    assert not known.is_lemma("bob")
