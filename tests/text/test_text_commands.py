"""Raw text in the commands and in programs."""

import json
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from extended import first_of
from programs import running

import parser
from parser.cli import main
from parser.text import reading
from parser.treebank.conllu import read_treebank

KEPT = Path("tests/text/tokenizer.json")
MODEL = Path("tests/model")
TEXT = "The cat sleeps. Don't go!\n\nWas it round?\n"


@pytest.fixture
def model(tmp_path):
    """A model with a tokenizer."""
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    shutil.copy(KEPT, folder / "tokenizer.json")
    return folder


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def sentences_of(path):
    return path.read_text(encoding="utf-8").split("\n\n")[:-1]


def test_raw_text_is_parsed(model, text, tmp_path):
    out = tmp_path / "out.conllu"
    assert main(["parse", str(model), "--text", text, "-o", str(out)]) == 0
    first, second, third = sentences_of(out)
    assert first.startswith("# newpar\n# sent_id = 1\n# text = The cat sleeps.\n1\tThe\t")
    assert "1-2\tDon't\t" in second
    assert third.splitlines()[0] == "# newpar"
    assert main(["check", str(out)]) == 0  # one root each, no cycle


@pytest.mark.extended
@pytest.mark.parametrize("form", first_of(["--text", "--one-sentence-per-line", "--tokenized"]))
def test_several_processes_write_the_same(form, model, tmp_path, monkeypatch):
    path, outs = tmp_path / "long.txt", [tmp_path / "1", tmp_path / "2"]
    path.write_text((TEXT * 100).replace("\n\n", "\n" if form != "--text" else "\n\n"), encoding="utf-8")
    monkeypatch.setattr(reading, "PART_BYTES", 1 << 10)
    assert len(list(reading.stream_text(str(path), form != "--text"))) > 3
    command = ["parse", str(model), "--device", "cpu", form, str(path)]
    for out, processes in zip(outs, "12", strict=True):
        assert main([*command, "-o", str(out), "--processes", processes]) == 0
    one, several = (out.read_bytes() for out in outs)
    assert one == several
    count = one.count(b"# sent_id")
    assert count >= 200
    assert f"# sent_id = {count}\n".encode() in one


@pytest.mark.extended
@pytest.mark.parametrize(("form", "end"), [("--text", b"\n\n"), ("--one-sentence-per-line", b"\n")])
def test_trees_come_while_the_text_is_still_being_written(form, end, model):
    command = [sys.executable, "-m", "parser", "parse", str(model), form, "-"]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for number, text in enumerate((b"The cat sleeps.", b"Was it round?"), 1):
            process.stdin.write(text + end)
            process.stdin.flush()
            lines = list(iter(process.stdout.readline, b"\n"))
            assert f"# sent_id = {number}\n".encode() in lines
            assert b"# text = " + text + b"\n" in lines
        process.stdin.close()
        assert process.wait() == 0


def test_a_model_without_tokenizer_says_what_to_do(text, capsys):
    assert main(["parse", str(MODEL), "--text", text]) == 2
    assert "Train it with `tokenizer: {kind: bilstm}`" in capsys.readouterr().err
    assert main(["parse", str(MODEL), "--one-sentence-per-line", text]) == 2


def test_raw_text_without_the_option_is_recognised(model, text, capsys):
    assert main(["parse", str(model), text]) == 2
    assert "if this is raw text, add --text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"settings": {"kind": "bilstm"}, "contents": {"a": "QUJD"}}', "not a sound tokenizer: "),
        (b'{"settings": {"kind": "bilstm"}, "contents": {"a": "?"}}', "Base64|base64"),
        (
            b'{"settings": {"kind": "bilstm", "epochs": 0}, "contents": {}}',
            "settings.epochs: Input should be",
        ),
        (
            b'{"settings": {"kind": "magic"}, "contents": {}}',
            "settings: input should be {kind: NAME}",
        ),
        (b'{"settings": {"kind": "spacy", "language": "../x"}, "contents": {}}', "settings.language: String"),
        (b'{"settings": {"kind": "lines"}}', "contents: Field required"),
        (b"[" * 100_000, "Invalid JSON: recursion limit"),
        (b" " * (1 << 26) + b"1", "longer than 67,108,864 bytes"),
        (b"\xff", "Invalid JSON"),
    ],
)
def test_a_broken_tokenizer_is_named(model, text, tmp_path, capsys, content, told):
    """The model still parses inputs that need no tokenizer."""
    (model / "tokenizer.json").write_bytes(content)
    assert main(["parse", str(model), "--text", text]) == 2
    assert re.match(rf"{model}: (tokenizer\.json: )+.*({told})", capsys.readouterr().err)
    assert main(["parse", str(model), "tests/model/parsed.conllu", "-o", str(tmp_path / "trees")]) == 0


@pytest.mark.extended
def test_a_broken_tokenizer_is_named_once_by_several_processes(model, text, capfd):
    (model / "tokenizer.json").write_text('{"settings": {"kind": "bilstm"}, "contents": {"a": "QUJD"}}')
    assert main(["parse", str(model), "--text", text, "--device", "cpu", "--processes", "2"]) == 2
    told = capfd.readouterr().err
    assert told.count("not a sound tokenizer: ") == told.count("; get the model again") == 1
    assert "Traceback" not in told
    assert told.startswith(f"{model}: tokenizer.json: ")


def test_a_package_keeps_the_tokenizer(model, text, tmp_path, capsys):
    package = tmp_path / "english.stackparser"
    assert main(["pack", str(model), "-o", str(package)]) == 0
    shutil.rmtree(model)
    capsys.readouterr()
    assert main(["parse", str(package), "--text", text]) == 0
    assert capsys.readouterr().out.count("# sent_id") == 3


def test_trees_of_text_in_a_program(model, text, tmp_path):
    english = parser.load(model)
    trees = english.parse_text(TEXT)
    assert [tree.words for tree in trees] == [
        ("The", "cat", "sleeps", "."),
        ("Do", "n't", "go", "!"),
        ("Was", "it", "round", "?"),
    ]
    assert [TEXT[token.start : token.end] for token in trees[1].tokens] == ["Don't", "go", "!"]
    own = "# sent_id = 2\n# text = Don't go!\n1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tTokenRange=16:21\n1\tDo\t"
    assert trees[1].to_conllu().startswith(own)
    assert [tree.text for tree in trees] == ["The cat sleeps.", "Don't go!", "Was it round?"]
    out = tmp_path / "out.conllu"
    assert main(["parse", str(model), "--text", text, "--probabilities", "-o", str(out)]) == 0
    written = "".join(tree.to_conllu() for tree in english.parse_text(TEXT, probabilities=True))
    assert written == out.read_text(encoding="utf-8")
    several = english.parse_texts(["", "The cat. She.", " \n", "Was it?", ""])
    assert list(map(len, several)) == [0, 2, 0, 1, 0]
    with pytest.raises(ValueError, match="texts: a list of strings is needed"):
        english.parse_texts("The cat")
    with pytest.raises(ValueError, match="text 2: a string is needed, not list"):
        list(english.parse_texts(["Yes.", ["No"]]))
    with pytest.raises(ValueError, match="text 1, character 2: a lone surrogate"):
        english.parse_text("a\ud800")


def test_scores_of_raw_text(model, tmp_path, capsys):
    treebank = "data/quickstart/dev.conllu"
    assert main(["evaluate", str(model), treebank, "--text", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["tokens"] == 100
    assert 80 < scores["sentences"] < 100
    missed = [each for kind, each in scores["segmentation"].items() if kind.startswith("missed sentence end")]
    ends = sum(each["of"] for each in missed)
    assert ends == len(read_treebank(treebank)) - 1
    page, figures = tmp_path / "report.html", tmp_path / "report.json"
    for file in (page, figures):
        assert main(["evaluate", str(model), treebank, "--text", "--report", str(file)]) == 0
    assert "errors in the segmentation" in capsys.readouterr().out
    told = json.loads(figures.read_text(encoding="utf-8"))
    assert {**told, "segmentation": None} == {**scores, "segmentation": None}
    examples = [one["text"] for each in told["segmentation"].values() for one in each["examples"]]
    assert examples
    shown = unescape(page.read_text(encoding="utf-8"))
    assert all(text in shown for text in examples)
    other = tmp_path / "other.txt"
    other.write_text("Another text.", encoding="utf-8")
    assert main(["evaluate", str(model), treebank, "--text", str(other)]) == 2
    assert "other.txt: not the text of the treebank: at token 1" in capsys.readouterr().err
    assert main(["evaluate", str(model), treebank, "--text", "--no-punct"]) == 2
