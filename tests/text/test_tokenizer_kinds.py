"""Each kind of tokenizer, from its settings to trees."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import parser
from parser.cli import main
from parser.config.file import ConfigError
from parser.text.reading import BLANKS, TextReader
from parser.text.spacy_rules import Spacy
from parser.text.tokenizer import as_sentence
from parser.text.tokenizer_kinds import (
    KINDS,
    AnyTokenizer,
    Blanks,
    Lines,
    StoredTokenizer,
    tokenizer_as_json,
    tokenizer_from_json,
)
from parser.training.config import read_config
from parser.treebank.conllu import blocks, parse_block

pytest.importorskip("spacy")

STORED = {
    "bilstm": tokenizer_from_json(Path("tests/text/tokenizer.json").read_bytes()),
    "spacy": StoredTokenizer(Spacy(kind="spacy", language="en")),
    "lines": StoredTokenizer(Lines(kind="lines")),
    "blanks": StoredTokenizer(Blanks(kind="blanks")),
}
DEV = "data/quickstart/dev.conllu"
SPACE = st.sampled_from("\n\r\t \0\ufeff")


@pytest.fixture(scope="module", params=STORED)
def stored(request):
    return STORED[request.param]


@pytest.fixture(scope="module")
def tokenizer(stored):
    return stored.settings.opened(stored.content())


@pytest.fixture
def model(stored, tmp_path):
    """The folder of a model with the tokenizer."""
    folder, content = tmp_path / "model", tokenizer_as_json(stored)
    shutil.copytree("tests/model", folder)
    (folder / "tokenizer.json").write_bytes(content)
    return folder


def without_space(text):
    return "".join(text.translate(BLANKS).split())


def words_of(reader, text):
    return [list(one.words) for one in reader.sentences(text)]


def test_all_kinds_are_tested():
    assert tuple(STORED) == KINDS
    assert [stored.settings.kind for stored in STORED.values()] == list(KINDS)


def test_a_stored_tokenizer_is_the_same(stored):
    again = tokenizer_from_json(tokenizer_as_json(stored))
    assert again == stored
    settings = TypeAdapter(AnyTokenizer).validate_python(stored.settings.model_dump())
    assert settings == stored.settings
    text = "The cat sleeps. Don't\ngo!\n\nWas it round?\n"
    one, other = (
        TextReader("raw", each.settings.opened(each.content())).sentences(text) for each in (stored, again)
    )
    assert list(one) == list(other)


@given(st.text(st.characters(exclude_categories=["Cs"]) | SPACE | st.sampled_from(".a'"), max_size=80))
def test_any_text_gives_valid_sentences(tokenizer, text):
    """Nothing is lost but white space, offsets are right, and the lines can be read."""
    for form in ("raw", "one-sentence-per-line", "tokenized"):
        found = list(TextReader(form, tokenizer).sentences(text, offset=7))
        tokens = [token for one in found for token in one.tokens]
        assert "".join(without_space(token.form) for token in tokens) == without_space(text)
        for token in tokens:
            start, end = token.start - 7, token.end - 7
            assert without_space(text[start:end]) == without_space(token.form)
            assert token.space_after == (end == len(text) or not without_space(text[end]))
        assert form == "raw" or not any(one.begins_paragraph for one in found)
        for number, one in enumerate(found, 1):
            assert without_space(one.text) == "".join(without_space(token.form) for token in one.tokens)
            sentence = as_sentence(one, number)
            [block] = blocks(io.StringIO("".join(sentence.lines), newline="\n"))
            read = parse_block(block, tree=False)
            assert (read.forms, read.word_lines) == (sentence.forms, sentence.word_lines)


def test_what_spacy_finds():
    reader = TextReader("wrapped", STORED["spacy"].settings.opened(b""))
    text = 'The cat (Tom)\nsleeps.  Don\'t!\n\n"Was it?"'
    found = list(reader.sentences(text, offset=100))
    assert [list(one.words) for one in found] == [
        ["The", "cat", "(", "Tom", ")", "sleeps", "."],
        ["Do", "n't", "!"],
        ['"', "Was", "it", "?", '"'],
    ]
    assert [one.begins_paragraph for one in found] == [True, False, True]
    assert [one.text for one in found] == ["The cat (Tom) sleeps.", "Don't!", '"Was it?"']
    assert "".join(as_sentence(found[1], 2).lines).splitlines()[2:-1] == [
        "1\tDo\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|TokenRange=123:125",
        "2\tn't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|TokenRange=125:128",
        "3\t!\t_\t_\t_\t_\t_\t_\t_\tTokenRange=128:129",
    ]
    each_line = TextReader("one-sentence-per-line", STORED["spacy"].settings.opened(b""))
    assert words_of(each_line, "Yes. No.\n\nMaybe") == [["Yes", ".", "No", "."], ["Maybe"]]
    french = Spacy(kind="spacy", language="fr").opened(b"")
    assert words_of(TextReader("wrapped", french), "L'homme aujourd'hui") == [["L'", "homme", "aujourd'hui"]]


def test_how_text_may_be_divided():
    text = "Don't  go .\r\nYes\u00a0sir\n\n  \nNo"
    lines, blanks = (
        TextReader("wrapped", STORED[kind].settings.opened(b"")).sentences(text)
        for kind in ("lines", "blanks")
    )
    assert [one.words for one in lines] == [("Don't", "go", "."), ("Yes", "sir"), ("No",)]
    assert [one.words for one in blanks] == [("Don't", "go", ".", "Yes", "sir"), ("No",)]


OF_DEV = "dev F1: tokens 98.96, sentences 84.99"


@pytest.mark.parametrize("of_dev", [OF_DEV, ""])
def test_the_log_of_a_training_says_how_far_it_is(of_dev):
    settings = TypeAdapter(AnyTokenizer).validate_python({"kind": "bilstm"})
    log = "some warning\n"
    for step in range(0, 200, 50):
        assert (settings.share_done(log), settings.dev_scores(log)) == (step / 200, "")
        log += f"step {step + 50} of 200: loss 1.6000\n"
    assert settings.share_done(log) == 1
    assert settings.dev_scores(f"{log}{of_dev}\n") == (f", {of_dev}" if of_dev else "")


@pytest.mark.extended
def test_text_is_parsed(model, stored, tmp_path, capsys):
    """By commands and programs, from a folder and from a package, in one process and in several."""
    text, outs, package = "The cat sleeps .\n\nWas it round ?\n", [], tmp_path / "english.stackparser"
    (tmp_path / "text").write_text(text)
    assert main(["pack", str(model), "-o", str(package)]) == 0
    for source, processes in ((model, "1"), (package, "2")):
        out = tmp_path / "out.conllu"
        command = ["parse", str(source), "--text", str(tmp_path / "text"), "-o", str(out), "--device", "cpu"]
        assert main([*command, "--processes", processes]) == 0
        outs.append(out.read_text())
    assert outs[0] == outs[1]
    assert [line.split("\t")[9] for line in outs[0].splitlines() if line[:1].isdecimal()] == [
        f"TokenRange={place}" for place in ("0:3", "4:7", "8:14", "15:16", "18:21", "22:24", "25:30", "31:32")
    ]
    trees = parser.load(package).parse_text(text)
    assert [tree.words for tree in trees] == [("The", "cat", "sleeps", "."), ("Was", "it", "round", "?")]
    assert [line.split("\t")[7] for line in outs[0].splitlines() if line[:1].isdecimal()] == [
        label for tree in trees for label in tree.labels
    ]


@pytest.mark.extended
def test_scores_of_text(model, stored, capsys):
    """Text that is already divided contains the treebank's tokens, some of which are several words."""
    assert main(["evaluate", str(model), DEV, "--text", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    lowest = {"bilstm": (100, 80, 100), "spacy": (96, 80, 100), "lines": (100, 100, 96)}
    lowest["blanks"] = lowest["lines"]
    measured = [scores[name] for name in ("tokens", "sentences", "words")]
    assert all(a >= b for a, b in zip(measured, lowest[stored.settings.kind], strict=True)), measured


def test_a_missing_package_is_named_and_only_text_needs_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "spacy", None)
    folder, stored = tmp_path / "model", STORED["spacy"]
    shutil.copytree("tests/model", folder)
    (folder / "tokenizer.json").write_bytes(tokenizer_as_json(stored))
    (tmp_path / "text").write_text("a\n")
    command = ["parse", str(folder), "-o", str(tmp_path / "trees")]
    assert main([*command, "--text", str(tmp_path / "text")]) == 2
    assert "pip install 'spacy>=" in capsys.readouterr().err
    assert main([*command, "tests/model/parsed.conllu"]) == 0
    assert main([*command, str(tmp_path / "text"), "--tokenized"]) == 0
    settings = json.dumps(stored.settings.model_dump())
    run = ["--run", str(tmp_path / "run"), "--set", f"tokenizer={settings}"]
    assert main(["train", "configs/quickstart.yaml", *run]) == 2
    assert "pip install 'spacy>=" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_language_that_spacy_can_not_divide_is_named_before_training(tmp_path, capsys):
    run = ["--run", str(tmp_path / "run"), "--set", "tokenizer={kind: spacy, language: qq}"]
    assert main(["train", "configs/quickstart.yaml", *run]) == 2
    assert "spaCy does not divide text of the language qq: [E048]" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            "bilstm",
            "tokenizer: input should be {kind: NAME} with one of the names bilstm, spacy",
        ),
        ("{kind: magic}", "with one of the names .*, not {'kind': 'magic'}"),
        ("{epochs: 3}", "with one of the names .*, not {'epochs': 3}"),
        ("{kind: spacy}", "tokenizer.language: field required"),
        ("{kind: spacy, language: EN}", "tokenizer.language: .*, not 'EN'"),
        ("{kind: bilstm, epoch: 3}", r"tokenizer.epoch: unknown key; did you mean epochs\?"),
        ("{kind: bilstm, epochs: 0}", "tokenizer.epochs: input should be greater than 0, not 0"),
    ],
)
def test_a_faulty_section_of_a_config_is_named(config_file, told, message):
    with pytest.raises(ConfigError, match=f"--set tokenizer={told}: .*{message}"):
        read_config(config_file, [f"tokenizer={told}"])


def test_one_setting_of_a_tokenizer_can_be_set(config_file):
    config = read_config(config_file, ["tokenizer.kind=bilstm", "tokenizer.epochs=7"])
    assert (config.tokenizer.kind, config.tokenizer.epochs) == ("bilstm", 7)
