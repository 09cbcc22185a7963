"""The script that writes a treebank with predicted tags."""

import sys

import pytest
from programs import script

from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_tags

SHIPPED = "data/quickstart"
NETWORK = "parser: {network: {tag_sizes: {}, tags: {predict: [upos]}}}\n"


@pytest.fixture
def program(monkeypatch):
    """The script with taggers that know the tags of sentences they have seen, and tag all others as X."""
    program, seen = script("predict_tags"), {}

    def tagger(config, run, sentences):
        seen[run] = {sentence.identifier for sentence in sentences}
        return run

    def tagged(model, sentences):
        return [
            with_tags(sentence, {"upos": ["X"] * len(sentence)}, "all")[0]
            if sentence.identifier not in seen[model]
            else sentence
            for sentence in sentences
        ]

    monkeypatch.setattr(program, "tagger", tagger)
    monkeypatch.setattr(program, "tagged", tagged)
    return program


def test_no_sentence_is_tagged_by_a_tagger_that_has_seen_it(program, tmp_path, monkeypatch, capsys):
    config = tmp_path / "tagger.yaml"
    config.write_text(
        f"treebank: {{train: {SHIPPED}/dev.conllu, dev: {SHIPPED}/dev.conllu, test: {SHIPPED}/test.conllu}}\n"
        + NETWORK
    )
    output = tmp_path / "tags"
    monkeypatch.setattr(sys, "argv", ["predict_tags.py", str(config), str(output), "--folds", "7"])
    program.main()
    gold = read_treebank(f"{SHIPPED}/dev.conllu")
    found, dev = (read_treebank(str(output / f"{name}.conllu")) for name in ("train", "dev"))
    assert {tag for sentence in found for tag in sentence.upos} == {"X"}
    assert [(own.forms, own.heads, own.labels, own.xpos) for own in found] == [
        (own.forms, own.heads, own.labels, own.xpos) for own in gold
    ]
    assert [own.upos for own in dev] == [own.upos for own in gold]  # by the tagger of all sentences
    assert "train.conllu: 2,480 words, UPOS 0.00 %" in capsys.readouterr().out


TRAIN = f"{SHIPPED}/train.conllu"


@pytest.mark.parametrize(
    ("train", "network", "message"),
    [
        (f"[{TRAIN}, {SHIPPED}/test.conllu]", NETWORK, r"treebank\.train has several files"),
        (TRAIN, "", r"predict has no upos"),
    ],
    ids=["several files", "no tagger"],
)
def test_a_config_that_is_not_for_this_is_refused(program, tmp_path, monkeypatch, train, network, message):
    config = tmp_path / "tagger.yaml"
    config.write_text(f"treebank: {{train: {train}, dev: {SHIPPED}/dev.conllu}}\n{network}")
    monkeypatch.setattr(sys, "argv", ["predict_tags.py", str(config), str(tmp_path / "tags")])
    with pytest.raises(SystemExit, match=message):
        program.main()
