"""Messages: names that could control a terminal, and durations in words."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from parser.cli import main
from parser.system.console import LinesError, in_words, printable, say, warn
from parser.system.progress_bar import ProgressBar

NAME = "\x1b[31mred\rforged\nforged\u202e\udcff\x9b"
TEXT = NAME.replace("\udcff", "")
"""Other libraries take only names that are UTF-8."""
MODEL = f"{TEXT}model"
ESCAPED = r"\x1b[31mred\rforged\nforged\u202e\udcff\x9b"
TREE = "1\ta\ta\tX\tX\t_\t{}\troot\t_\t_\n\n"


def test_a_message_is_written_in_one_piece(monkeypatch):
    """Otherwise, messages of several processes would mix."""
    pieces = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=pieces.append, flush=lambda: None))
    warn("one", "two")
    assert [piece for piece in pieces if piece] == ["one\ntwo\n"]


def test_a_terminal_that_lacks_letters_gets_escapes(monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", output)
    say("ça: 猫")
    assert output.buffer.getvalue().decode("latin-1") == "ça: \\u732b\n"


def test_no_bar_is_drawn_where_standard_error_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(ProgressBar(range(3), mininterval=0)) == [0, 1, 2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which commands run, with hostile names everywhere."""
    shutil.copytree("tests/model", tmp_path / MODEL)
    (tmp_path / f"{NAME}.conllu").write_text(TREE.format(0))
    (tmp_path / f"{NAME}faulty.conllu").write_text(TREE.format(7) + TREE.format(8))
    (tmp_path / f"{NAME}empty.conllu").touch()
    (tmp_path / f"{NAME}.conllu.gz").write_text("no gzip")
    (tmp_path / f"{NAME}.txt").write_bytes(b"\xff")
    (tmp_path / f"{NAME}.yaml").write_text("none: such\nnor: this\n")
    (tmp_path / f"{NAME}broken.yaml").write_text("a: [\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


PATHS = [f"{NAME}{end}" for end in ("missing", ".conllu.gz", "faulty.conllu", "empty.conllu")]
CONFIGS = "missing", ".yaml", "broken.yaml"
TREES, PAGE, MISSING = f"{NAME}.conllu", f"{NAME}.html", f"{NAME}missing"
QUICK = [
    *(["check", path, TREES] for path in PATHS),
    *(["draw", path, "-o", PAGE] for path in PATHS),
    *(["draw", TREES, "--text", "--gold", path] for path in PATHS),
    *([command, f"{NAME}{end}"] for command in ("train", "speed", "table") for end in CONFIGS),
    ["parse", MISSING, TREES],
    ["parse", MODEL, TREES, "--device", MISSING],
    ["parse", MODEL, TREES, MISSING],
    ["parse", MODEL, TREES, "--batch-size", MISSING],
    ["parse", MODEL, TREES, "--deps", MISSING],
    ["compare", MISSING, MODEL, TREES],
    ["pack", TREES],
    ["pack", MISSING],
    ["train", "--resume", MISSING],
    ["train", "--resume", MODEL],
    ["train", MODEL],
    ["train", f"{NAME}.yaml", "--set", MISSING],
    ["plots", MISSING],
    ["plots", MODEL],
    ["plugins", "--check", MISSING],
    ["parse-corpus", MODEL, MISSING, f"{NAME}target"],
    ["parse-corpus", MODEL, MODEL, MODEL],
    ["parse-corpus", MISSING, ".", f"{NAME}target"],
    [MISSING],
]
WITH_A_MODEL = [
    *(["parse", MODEL, path, "-o", f"{NAME}.parsed"] for path in PATHS),
    *(["parse", MODEL, path, "-o", f"{NAME}.parsed", "--tokenized"] for path in PATHS),
    *(["evaluate", MODEL, path] for path in PATHS),
    *(["compare", MODEL, MODEL, path] for path in PATHS),
    ["parse", MODEL, TREES, "-o", f"{MISSING}/{TREES}"],
    ["parse", MODEL, f"{NAME}.txt", "--tokenized"],
    ["parse", MODEL, TREES, "--treebank", MISSING],
    ["parse", MODEL, TREES, "--text"],
    ["evaluate", MODEL, TREES, "--text", f"{NAME}.txt"],
    ["evaluate", MODEL, TREES, "--report", PAGE],
    ["evaluate", MODEL, TREES, "--report", f"{MISSING}/{PAGE}"],
    ["compare", MODEL, MODEL, TREES, "--report", PAGE],
    ["pack", MODEL],
]


@pytest.mark.parametrize(
    "commands", [QUICK, pytest.param(WITH_A_MODEL, marks=pytest.mark.extended)], ids=["quick", "with a model"]
)
def test_names_are_escaped_in_every_message(commands, folder, capsys):
    for command in commands:
        with suppress(SystemExit):  # from argparse
            main(command)
        written = capsys.readouterr()
        lines = (written.out + written.err).splitlines(keepends=True)
        assert lines, command
        for line in lines:
            assert line.removesuffix("\n").isprintable(), (command, line)
            assert not line.startswith("forged"), command


def test_each_line_of_an_error_is_a_line(folder, capsys):
    assert main(["check", f"{NAME}faulty.conllu", f"{NAME}missing", f"{NAME}.conllu"]) == 2
    faults = [line.partition(": ")[0] for line in capsys.readouterr().err.splitlines()]
    assert faults == [f"{ESCAPED}faulty.conllu:1", f"{ESCAPED}faulty.conllu:3", f"{ESCAPED}missing"]


def test_trees_and_scores_stay_as_they_are(folder, capfdbinary):
    (folder / "trees.conllu").write_text(TREE.format(0).replace("\ta\ta\t", "\t\u202e\u00a0a\ta\t"))
    assert main(["parse", MODEL, "trees.conllu"]) == 0
    sys.stdout.flush()
    assert "\t\u202e\u00a0a\ta\t".encode() in capfdbinary.readouterr().out
    assert main(["evaluate", MODEL, "trees.conllu", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["scored_words"] == 1


def test_what_is_said_is_printable(capsys):
    say(f"{NAME} é 語 ✗ \\", "")
    warn(str(LinesError("one", "two")), *LinesError("one", "two").args)
    assert capsys.readouterr() == (f"{ESCAPED} é 語 ✗ \\\n\n", "one\\ntwo\none\ntwo\n")


def test_descriptions_of_bars_are_printable(capsys):
    with ProgressBar(total=2, desc=NAME) as bar:
        bar.set_description_str(NAME)
    written = capsys.readouterr().err
    assert printable(NAME) in written
    assert NAME[:5] not in written


@pytest.mark.extended
def test_a_corpus_with_hostile_names(folder):
    """The summary lists the faults of each file, line by line."""
    pytest.importorskip("ray")
    (folder / "in").mkdir()
    for name, content in (("", TREE.format(0)), ("faulty", "faulty\n\nfaulty\n")):
        (folder / "in" / f"{TEXT}{name}.conllu").write_text(content)
    command = [sys.executable, "-m", "parser", "parse-corpus", MODEL, "in", f"{TEXT}out"]
    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert all(line.isprintable() for line in done.stderr.split("\n"))
    assert f"{printable(TEXT)}faulty.conllu:3: sentence #2: no tabs" in done.stderr
    assert Path(f"{TEXT}out", f"{TEXT}.conllu").is_file()


def test_durations_are_rounded():
    seconds = 0.2, 9.9, 44, 89, 100, 721, 5300, 5500, 90_000
    words = "a few seconds", "a few seconds", "about 40 s", "about 90 s", "about 2 min", "about 12 min"
    assert tuple(map(in_words, seconds)) == (*words, "about 88 min", "about 1.5 h", "about 25.0 h")
