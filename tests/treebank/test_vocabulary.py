import json

import pytest
from plain_transitions import sentence

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
"""Of the JSON of a vocabulary."""


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
    tokens = vocabulary.encode_tokens([TRAIN[0], sentence([0], forms=["bird"])])
    assert tokens.values.tolist() == [[1, 1], [4, 2], [UNKNOWN, 1]]
    assert tokens.lengths.tolist() == [2, 1]
    assert vocabulary.encode_heads(TRAIN).values.tolist() == [2, 0, 2, 0, 2]
    labels = vocabulary.encode_labels([sentence([2, 0], labels=["never seen", "root"])])
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
