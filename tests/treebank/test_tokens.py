"""Tokens: the columns of words, and the parts of divided columns."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_transitions import sentence

from parser.treebank.vocabulary import UNKNOWN, Vocabulary

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
    tokens = vocabulary.encode_tokens(sentences(forms)).select(torch.tensor(chosen))
    expected = [forms[number] for number in chosen]
    again = vocabulary.encode_tokens(sentences(expected))
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
    tokens = vocabulary.encode_tokens(train)
    strings = [own.tolist() for own in tokens.parts[0].unflatten()]
    assert [strings[number] for number in tokens.values[:, 0].tolist()] == [[2, 1], [], [1]]


def test_unseen_characters_and_features_are_unknown():
    vocabulary = Vocabulary.build(sentences([["ab"]]), ["characters", "feats"])
    tokens = vocabulary.encode_tokens(sentences([["bc", "a", "c"]]))
    characters = [own.tolist() for own in tokens.parts[0].unflatten()]
    b = vocabulary.columns["characters"].number("b")
    assert characters == [[b, UNKNOWN], [vocabulary.columns["characters"].number("a")], [UNKNOWN]]


def test_moving_to_a_device_preserves_everything(device):
    vocabulary = Vocabulary.build(sentences([["ab", "c"]]), COLUMNS)
    tokens = vocabulary.encode_tokens(sentences([["ab", "c"]]))
    moved = tokens.to(device)
    assert torch.equal(moved.values.cpu(), tokens.values)
    assert moved.lengths.device.type == "cpu"
    for column, strings in tokens.parts.items():
        assert torch.equal(moved.parts[column].values.cpu(), strings.values)
        assert torch.equal(moved.parts[column].lengths.cpu(), strings.lengths)
