"""Vocabularies, and the words of sentences as their numbers."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import sentence

from parser.batching.ragged import Ragged
from parser.treebank.lemma_rules import lemma_rule
from parser.treebank.tokens import Tokens, encode_heads, encode_labels, encode_tokens
from parser.treebank.vocabulary import PRETRAINED, UNKNOWN, Lexicon, Vocabulary

TRAIN = [
    sentence([2, 0], labels=["det", "root"], forms=["the", "dog"]),
    sentence([2, 0, 2], labels=["det", "root", "obj"], forms=["the", "cat", "Dog"]),
]
CONTENT = {
    "columns": {"form": []},
    "folded": [],
    "labels": ["root", "x"],
    "root_labels": [1],
    "word_labels": [2],
    "predicted": {},
}
"""The content of a vocabulary's JSON."""


def test_frequent_strings_come_first_and_unseen_ones_are_unknown():
    vocabulary = Vocabulary.build(TRAIN, ["form", "upos"])
    form = vocabulary.columns["form"]
    assert form.strings == ("the", "Dog", "cat", "dog")
    assert form.number("the") == 1
    assert form.number("bird") == UNKNOWN
    assert len(form) == 5


def test_labels_from_root_and_from_words_are_distinguished():
    vocabulary = Vocabulary.build(TRAIN, ["form"])
    assert {vocabulary.labels.string(number) for number in vocabulary.root_labels} == {"root"}
    assert {vocabulary.labels.string(number) for number in vocabulary.word_labels} == {"det", "obj"}


def test_encoding():
    vocabulary = Vocabulary.build(TRAIN, ["form", "upos"])
    tokens = encode_tokens(vocabulary, [TRAIN[0], sentence([0], forms=["bird"])])
    assert tokens.values.tolist() == [[1, 1], [4, 2], [UNKNOWN, 1]]
    assert tokens.lengths.tolist() == [2, 1]
    assert encode_heads(TRAIN).values.tolist() == [2, 0, 2, 0, 2]
    labels = encode_labels(vocabulary, [sentence([2, 0], labels=["never seen", "root"])])
    assert labels.values.tolist() == [UNKNOWN, vocabulary.labels.number("root")]


def test_pretrained_forms_are_found_in_lower_case():
    vocabulary = Vocabulary.build(TRAIN, ["form"], ["the", "dog"])
    assert list(vocabulary.columns) == ["form", PRETRAINED]
    lexicon = vocabulary.columns[PRETRAINED]
    assert lexicon.number("The") == lexicon.number("the") == 1


def test_json_and_back():
    vocabulary = Vocabulary.build(TRAIN, ["form", "upos"], ["Ünïcode"])
    loaded = Vocabulary.from_json(vocabulary.as_json())
    assert {name: lexicon.strings for name, lexicon in loaded.columns.items()} == {
        name: lexicon.strings for name, lexicon in vocabulary.columns.items()
    }
    assert loaded.labels.strings == vocabulary.labels.strings
    assert (loaded.root_labels, loaded.word_labels) == (vocabulary.root_labels, vocabulary.word_labels)
    assert loaded.columns[PRETRAINED].fold_case


def test_case_folding():
    vocabulary = Vocabulary.build(TRAIN, ["form", "upos"], fold_case=True)
    assert vocabulary.columns["form"].strings == ("dog", "the", "cat")
    for known in (vocabulary, Vocabulary.from_json(vocabulary.as_json())):
        assert known.columns["form"].number("DOG") == known.columns["form"].number("dog") == 1
        assert known.columns["upos"].number("noun") == UNKNOWN


def test_json_does_not_depend_on_the_order_of_sets():
    labels = Lexicon("abcdefghijk")
    assert len({Vocabulary({}, labels, frozenset(n), frozenset(n)).as_json() for n in ([1, 9], [9, 1])}) == 1


TAGGED = {**CONTENT, "predicted": {"upos": ["NOUN", "VERB"], "feats": ["_", "Number=Sing"]}}


def test_analyses_are_kept_and_extended():
    """The numbers of the other treebank's values differ."""
    first, other = (Vocabulary.build([each], ["form"], predicted=["upos", "lemma"]) for each in TRAIN)
    both = Vocabulary.from_json(first.extended(other).as_json())
    found = {
        (
            form,
            *(lexicon.strings[index] for lexicon, index in zip(both.predicted.values(), each, strict=True)),
        )
        for form, each in both.analyses.words()
    }
    words = [
        (form, upos, lemma)
        for one in TRAIN
        for form, upos, lemma in zip(one.forms, one.upos, one.lemmas, strict=True)
    ]
    assert found == {(form, upos, lemma_rule(form, lemma)) for form, upos, lemma in words}


@pytest.mark.parametrize(
    ("analyses", "message"),
    [
        ({"combinations": ["0,2"]}, "'0,2' is no combination"),
        ({"combinations": ["0"]}, "'0' is no combination"),
        ({"combinations": ["0,1"], "forms": {"a": "0,1"}}, "a combination of 'a' is missing"),
        ({"combinations": ["0,1"], "forms": {"a": "0,0"}}, "'a' has a combination twice"),
        ({"combinations": ["-1,1"]}, "'-1,1' is no combination"),
        ({"combinations": ["0,-2"]}, "should match pattern"),
        ({"combinations": ["0,1"], "bonus": -1}, "greater than or equal to 0"),
    ],
)
def test_invalid_analyses_are_refused(analyses, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_json(json.dumps({**TAGGED, "analyses": analyses}))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["root", "x", "x"], "a label occurs twice"),
        (["root", "x↑"], "DEPREL is missing"),
        (["root", "a\tb"], "cannot be printed"),
    ],
)
def test_invalid_labels_are_refused(labels, message):
    content = {**CONTENT, "labels": labels}
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_json(json.dumps(content))


@pytest.mark.parametrize("numbers", [[], [0], [3]])
@pytest.mark.parametrize("name", ["root_labels", "word_labels"])
def test_label_numbers_out_of_range_are_refused(name, numbers):
    with pytest.raises(ValueError, match="must be label numbers, counted from 1"):
        Vocabulary.from_json(json.dumps({**CONTENT, name: numbers}))


FORMS = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=6)
COLUMNS = ["form", "lemma", "feats", "characters"]


def sentences(forms):
    return [sentence([0, *range(1, len(own))], forms=own) for own in forms]


def spelled(vocabulary, tokens):
    """The characters of each word, decoded from its numbers."""
    column = COLUMNS.index("characters")
    strings = tokens.parts[column].unflatten()
    lexicon = vocabulary.columns["characters"]
    numbers = tokens.values[:, column].tolist()
    return ["".join(map(lexicon.string, strings[number].tolist())) for number in numbers]


@given(st.lists(FORMS, min_size=1, max_size=5), st.data())
def test_selecting_equals_encoding_the_selected_sentences(forms, data):
    chosen = data.draw(st.lists(st.integers(0, len(forms) - 1), min_size=1, max_size=6))
    vocabulary = Vocabulary.build(sentences(forms), COLUMNS)
    tokens = encode_tokens(vocabulary, sentences(forms)).select(torch.tensor(chosen))
    expected = [forms[number] for number in chosen]
    again = encode_tokens(vocabulary, sentences(expected))
    assert spelled(vocabulary, tokens) == [form for own in expected for form in own]
    assert spelled(vocabulary, again) == spelled(vocabulary, tokens)
    assert tokens.lengths.tolist() == again.lengths.tolist() == list(map(len, expected))
    assert torch.equal(tokens.values[:, :2], again.values[:, :2])
    for column, strings in tokens.parts.items():
        assert len(strings) == len(again.parts[column])  # each distinct string once, and no others
        assert len(strings) == len(tokens.values[:, column].unique())


def test_features_are_split_and_counted_one_by_one():
    train = sentences([["a", "b", "c"]])  # with Case=Nom|Number=Sing, none, Number=Sing
    vocabulary = Vocabulary.build(train, ["feats"])
    assert vocabulary.columns["feats"].strings == ("Number=Sing", "Case=Nom")
    tokens = encode_tokens(vocabulary, train)
    strings = [own.tolist() for own in tokens.parts[0].unflatten()]
    assert [strings[number] for number in tokens.values[:, 0].tolist()] == [[2, 1], [], [1]]


def test_unseen_characters_and_features_are_unknown():
    vocabulary = Vocabulary.build(sentences([["ab"]]), ["characters", "feats"])
    tokens = encode_tokens(vocabulary, sentences([["bc", "a", "c"]]))
    characters = [own.tolist() for own in tokens.parts[0].unflatten()]
    b = vocabulary.columns["characters"].number("b")
    assert characters == [[b, UNKNOWN], [vocabulary.columns["characters"].number("a")], [UNKNOWN]]


def test_moving_to_a_device_preserves_everything(device):
    vocabulary = Vocabulary.build(sentences([["ab", "c"]]), COLUMNS)
    tokens = encode_tokens(vocabulary, sentences([["ab", "c"]]))
    moved = tokens.to(device)
    assert torch.equal(moved.values.cpu(), tokens.values)
    assert moved.lengths.device.type == "cpu"
    for column, strings in tokens.parts.items():
        assert torch.equal(moved.parts[column].values.cpu(), strings.values)
        assert torch.equal(moved.parts[column].lengths.cpu(), strings.lengths)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), min_size=1))
def test_distinct_words(words):
    distinct, number = Tokens(Ragged(torch.tensor(words), torch.tensor([len(words)]))).distinct()
    assert [tuple(distinct.values[row].tolist()) for row in number.tolist()] == words
    assert len(distinct.values) == len(set(words)) == distinct.lengths
