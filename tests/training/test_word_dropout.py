"""What word dropout replaces, and how often."""

import pytest
import torch
from plain_parser import sentence

from parser.training.config import TrainingSettings
from parser.training.word_dropout import WordDropout, word_rates
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import UNKNOWN, Vocabulary

COLUMNS = ["form", "upos", "feats", "characters"]
SENTENCES = [sentence([2, 0, 2], forms=["often", "often", "once"])] * 1 + [sentence([0], forms=["often"])]
TIMES = 400


def replaced(**settings):
    """The rate at which each number (for FEATS, each feature) becomes the unknown one, by column."""
    vocabulary = Vocabulary.build(SENTENCES, COLUMNS)
    tokens = encode_tokens(vocabulary, SENTENCES)
    dropout = WordDropout(vocabulary, tokens, TrainingSettings(**settings), torch.device("cpu"))
    found = [dropout(tokens) for _ in range(TIMES)]
    before = {"form": tokens.values[:, 0], "upos": tokens.values[:, 1], "feats": tokens.parts[2].values}
    after = {
        "form": torch.stack([each.values[:, 0] for each in found]),
        "upos": torch.stack([each.values[:, 1] for each in found]),
        "feats": torch.stack([each.parts[2].values for each in found]),
    }
    for each in found:
        assert torch.equal(each.values[:, 2:], tokens.values[:, 2:])
        assert torch.equal(each.parts[3].values, tokens.parts[3].values)
    for name in before:
        assert ((after[name] == before[name]) | (after[name] == UNKNOWN)).all()
    return {name: (after[name] == UNKNOWN).float().mean(0).tolist() for name in before}


def test_nothing_is_replaced_unless_asked_for():
    rates = replaced(unknown_probability=0.0)
    assert all(rate == 0 for column in rates.values() for rate in column)


def test_words_seen_once():
    assert replaced(unknown_probability=0.5)["form"] == [0, 0, pytest.approx(0.5, abs=0.1), 0]


def test_rare_words_more_often_than_frequent_ones():
    rates = word_rates(
        torch.tensor([0, 1, 3, 100]), TrainingSettings(word_dropout=0.25, unknown_probability=0.1)
    )
    assert rates.tolist() == pytest.approx([1.0, 0.2, 1 / 13, 1 / 401])


@pytest.mark.parametrize(("setting", "column"), [("tag_dropout", "upos"), ("feature_dropout", "feats")])
def test_tags_and_features(setting, column):
    rates = replaced(unknown_probability=0.0, **{setting: 0.3})
    assert rates.pop(column) == [pytest.approx(0.3, abs=0.1)] * len(replaced()[column])
    assert all(rate == 0 for other in rates.values() for rate in other)


def test_tags_that_are_learnt_are_not_replaced():
    given = [sentence([2, 0])]
    vocabulary = Vocabulary.build(given, ["form", "xpos"], predicted=["upos"])
    tokens = encode_tokens(vocabulary, given, gold=True)
    settings = TrainingSettings(tag_dropout=0.999, unknown_probability=0.0)
    seen = WordDropout(vocabulary, tokens, settings, torch.device("cpu"))(tokens)
    assert torch.equal(seen.values[:, 2], tokens.values[:, 2])
    assert not seen.values[:, 1].any()
