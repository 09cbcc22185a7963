"""Warnings about inputs with blank or unknown columns."""

from dataclasses import replace
from pathlib import Path

import pytest
from extended import first_of
from services import make_model

from parser.cli import main
from parser.models import column_shares as module
from parser.models.column_shares import (
    ColumnShares,
    InputColumnCheck,
    column_shares,
    shares_as_json,
    shares_from_json,
)
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Vocabulary

QUICKSTART = Path("data/quickstart")
COLUMNS = ("form", "lemma", "upos", "xpos", "feats")


def warnings(check, sentences):
    messages = []
    assert list(check.check(sentences, messages.append)) == sentences
    return messages


@pytest.fixture(scope="module")
def quickstart():
    train, dev, test = (
        read_treebank(str(QUICKSTART / f"{part}.conllu")) for part in ("train", "dev", "test")
    )
    lexicons = Vocabulary.build(train, COLUMNS).columns
    return lexicons, column_shares(lexicons, dev), dev, test


def blank(sentences, *columns):
    return [replace(s, **{column: ("_",) * len(s) for column in columns}) for s in sentences]


def test_shares_of_a_treebank(quickstart):
    lexicons, dev_shares, dev, _ = quickstart
    assert dev_shares["upos"] == ColumnShares(blank=0.0, unknown=0.0)
    words = sum(map(len, dev))
    feats = [value for sentence in dev for value in sentence.feats]
    assert dev_shares["feats"].blank == feats.count("_") / words
    known = lexicons["form"].strings
    assert dev_shares["form"].unknown == sum(form not in known for s in dev for form in s.forms) / words
    assert shares_from_json(shares_as_json(dev_shares)) == dev_shares


def test_no_warnings_for_dev_and_test(quickstart):
    lexicons, dev_shares, dev, test = quickstart
    for sentences in (dev, test, dev[:1], test[:3], []):
        assert warnings(InputColumnCheck(lexicons, dev_shares), sentences) == []


def test_blank_columns_are_reported_once(quickstart, monkeypatch):
    monkeypatch.setattr(module, "WORDS_BETWEEN_CHECKS", 50)
    lexicons, dev_shares, _, test = quickstart
    without = blank(test, "lemmas", "upos", "xpos", "feats")
    messages = warnings(InputColumnCheck(lexicons, dev_shares), without)
    assert [message.split()[0] for message in messages] == ["LEMMA", "UPOS", "XPOS", "FEATS"]
    assert messages[1].startswith(
        "UPOS is blank for 100% of the words (0% of the dev treebank), and this model reads it"
    )
    assert (
        warnings(InputColumnCheck({"form": lexicons["form"]}, dev_shares), without) == []
    )  # it reads none of these
    assert len(warnings(InputColumnCheck(lexicons, dev_shares), without[:1])) == 3  # not FEATS
    one = [replace(s, forms=s.forms[:1], upos=("_",), xpos=s.xpos[:1], lemmas=s.lemmas[:1]) for s in test[:1]]
    assert (
        len(warnings(InputColumnCheck({name: lexicons[name] for name in ("form", "upos")}, dev_shares), one))
        == 1
    )


def test_columns_that_become_blank_later_are_reported(quickstart, monkeypatch):
    monkeypatch.setattr(module, "WORDS_BETWEEN_CHECKS", 50)
    lexicons, dev_shares, _, test = quickstart
    messages = []
    some = InputColumnCheck(lexicons, dev_shares).check(test + 3 * blank(test, "upos"), messages.append)
    for _ in test:
        next(some)
    assert not messages
    list(some)
    assert len(messages) == 1


def test_values_of_another_tag_set_are_reported(quickstart):
    lexicons, dev_shares, _, test = quickstart
    other = [replace(s, xpos=tuple(f"T-{tag}" for tag in s.xpos)) for s in test]
    [message] = warnings(InputColumnCheck(lexicons, dev_shares), other)
    assert message.startswith("XPOS: 100% of the values do not occur in training (0% in the dev treebank)")


def test_unknown_values_of_fewer_than_200_words_are_too_few_to_judge(quickstart):
    lexicons, dev_shares, _, test = quickstart
    words = [replace(one, forms=tuple(f"{form}x" for form in one.forms)) for one in test]
    ends = [sum(map(len, words[:count])) for count in range(1, len(words))]
    most = sum(end < 200 for end in ends)
    check = InputColumnCheck({"form": lexicons["form"]}, dev_shares)
    assert ends[most - 1] > 150
    assert warnings(check, words[:most]) == []
    [message] = warnings(check, words[most : most + 10])  # counts go on
    assert message.startswith("FORM: 100% of the values do not occur in training")


def test_without_shares_of_dev_only_blank_columns_are_reported(quickstart):
    lexicons, _, _, test = quickstart
    other = [replace(s, xpos=tuple(f"T-{tag}" for tag in s.xpos)) for s in blank(test, "upos")]
    [message] = [text for text in warnings(InputColumnCheck(lexicons, {}), other) if "FEATS" not in text]
    assert message.startswith("UPOS is blank for 100% of the words, and")


@pytest.mark.extended
def test_characters_that_training_never_saw_are_named_once(quickstart, monkeypatch):
    """In text only: the words of a treebank are divided already."""
    monkeypatch.setattr(module, "WORDS_BETWEEN_CHECKS", 2)
    lexicons = {"form": quickstart[0]["form"]}
    forms = ["The", "\u201ccat", "\u201d", "ß\u201d", "\u201c", "the", "CAT"]
    sentences = [Sentence.without_tree({"forms": (form, "cat")}, "1", 1) for form in forms]
    [first, second, third] = warnings(InputColumnCheck(lexicons, {}, is_text=True), sentences)
    assert first.startswith("characters that training never saw: \u201c (U+201C, in 1 word). Words with them")
    assert second.startswith("characters that training never saw: \u201d (U+201D, in 1 word). ")
    assert third.startswith("characters that training never saw: ß (U+00DF, in 1 word). ")
    assert warnings(InputColumnCheck(lexicons, {}), sentences) == []
    many = [Sentence.without_tree({"forms": tuple(map(chr, range(0x4E00, 0x4E40)))}, "1", 1), *sentences]
    [told] = warnings(InputColumnCheck(lexicons, {}, is_text=True), many)
    assert told.count("U+") == 10
    assert "and 54 more. " in told


@pytest.mark.parametrize("processes", first_of(["1", "2"]))
def test_commands_name_them(tmp_path, capsys, processes):
    text = tmp_path / "text.txt"
    text.write_text("The cat sleeps.\n\n\u00abThe cat.\u00bb\n\nThe \u00abcat\u00bb.\n")
    command = ["parse", str(make_model(tmp_path / "tiny")), "--text", str(text), "--processes", processes]
    assert main(command) == 0
    told = capsys.readouterr().err
    assert told.count("characters that training never saw: ") == 1
    assert "\u00ab (U+00AB, in 2 words), \u00bb (U+00BB, in 2 words). " in told


def test_commands_warn(config_file, tmp_path, capsys):
    run, treebank = tmp_path / "run", tmp_path / "tiny.conllu"
    model = str(run / "model")
    assert main(["train", str(config_file), "--run", str(run)]) == 0
    without, text = tmp_path / "without.conllu", treebank.read_text()
    for tag in ("NOUN", "VERB", "PUNCT"):
        text = text.replace(f"\t{tag}\t", "\t_\t")
    without.write_text(text)
    capsys.readouterr()
    commands = (["parse", model], ["evaluate", model], ["compare", model, model])
    for command in commands:
        assert main([*command, str(treebank)]) == 0
        assert "warning" not in capsys.readouterr().err
        assert main([*command, str(without)]) == 0
        messages = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
        assert len(messages) == (2 if command[0] == "compare" else 1)
        assert all(
            f"{without}: UPOS is blank for 100% of the words (0% of the dev treebank)" in line
            for line in messages
        )
    (run / "model" / "columns.json").write_text("{}")
    assert main(["evaluate", model, str(without)]) == 0
    assert "UPOS is blank for 100% of the words, and" in capsys.readouterr().err
    (run / "model" / "columns.json").write_text('{"upos": {"blank": 7, "unknown": 0}}')
    assert main(["evaluate", model, str(without)]) == 2
    assert "columns.json: upos.blank" in capsys.readouterr().err


@pytest.mark.real_data
def test_no_real_treebank_has_warnings_for_its_own_dev_and_test(treebanks):
    folders = [
        path
        for path in sorted(treebanks.iterdir())
        if all(list(path.glob(f"*-ud-{part}.conllu")) for part in ("train", "dev", "test"))
    ]
    assert folders
    for folder in folders:
        train, dev, test = (
            read_treebank(str(next(folder.glob(f"*-ud-{part}.conllu")))) for part in ("train", "dev", "test")
        )
        lexicons = Vocabulary.build(train, COLUMNS).columns
        dev_shares = column_shares(lexicons, dev)
        for sentences in (dev, test):
            assert warnings(InputColumnCheck(lexicons, dev_shares), sentences) == [], folder
        without = blank(test, "lemmas", "upos", "xpos", "feats")
        assert warnings(InputColumnCheck(lexicons, dev_shares), without), folder
