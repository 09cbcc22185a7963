"""The tokenizer that a run trains in parallel with its parser."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from extended import first_of
from programs import is_mentioned, running, wait_until

from parser.cli import main
from parser.text.of_model import text_reader, tokenizer_of
from parser.text.tokenizer_kinds import StoredTokenizer, tokenizer_as_json, tokenizer_from_json
from parser.text.training_process import files_of, share_done
from parser.training import tokenizer
from parser.training.config import read_config
from parser.training.run import train
from parser.training.tokenizer import tokenizer_training

CPU = torch.device("cpu")
KEPT = Path("tests/text/tokenizer.json")
SETTINGS = {
    **tokenizer_from_json(KEPT.read_bytes()).settings.model_dump(),
    "least_steps": 20,
    "most_steps": 20,
}
"""Of a tokenizer of the same sizes that is trained in no time."""


@pytest.fixture
def text_config(config_file):
    with config_file.open("a", encoding="utf-8") as file:
        file.write(f"tokenizer: {json.dumps(SETTINGS)}\n")
    return config_file


@pytest.mark.extended
def test_a_finished_run_gets_a_tokenizer(tmp_path, trained):
    run = tmp_path / "run"
    trained()
    assert json.loads((run / "result.json").read_text())["text"] is None
    changed = "--resume", f"tokenizer={json.dumps(SETTINGS)}"
    assert "tokenizer trained in" in trained(*changed)
    assert json.loads((run / "result.json").read_text())["text"]["words"] > 90
    (tmp_path / "text").write_text("cats sleep .", encoding="utf-8")
    assert main(["parse", str(run / "model"), "--text", str(tmp_path / "text")]) == 0
    assert "tokenizer trained in" not in trained(*changed)  # the run has one already
    trained("--resume", "tokenizer=null")
    assert not (run / "model" / "tokenizer.json").exists()


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A file whose creation ends the training of a tokenizer, for which a copy stands in here."""
    trained, file = tmp_path / "trained", tmp_path / "go"
    trained.write_bytes(tokenizer_from_json(KEPT.read_bytes()).content())

    def started(settings, folder, treebanks, log, line):
        log.write_text(f"treebank 1 of {treebanks}\nstep 10 of 20: loss 1.6000\n")
        output = files_of(folder, 0).output
        waits = 'while [ ! -e "$1" ]; do sleep 0.05; done; cp "$2" "$3"'
        return subprocess.Popen(["sh", "-c", waits, "sh", file, trained, output], start_new_session=True)

    monkeypatch.setattr(tokenizer, "start_training", started)
    return file


@pytest.mark.extended
def test_a_tokenizer_stays_until_another_one_is_trained(text_config, tmp_path, go, capsys):
    """Even if the training of the other tokenizer is killed and started again."""
    run = tmp_path / "run"
    kept = run / "model" / "tokenizer.json"
    config, other = (read_config(text_config, [f"tokenizer.seed={seed}"]) for seed in (1, 2))
    go.touch()
    train(config, run, CPU)
    before = kept.read_bytes()
    go.unlink()
    for _ in range(2):
        with tokenizer_training(other, run) as training:  # this training is killed
            training.keep_if_ready()
            assert kept.read_bytes() == before
        assert "has other settings; it is replaced when another one is trained" in capsys.readouterr().out
        assert kept.read_bytes() == before
        assert not list(run.glob(".tokenizer-training-*"))
    go.touch()
    train(other, run, CPU, resume=True)
    assert tokenizer_from_json(kept.read_bytes()).settings == other.tokenizer
    capsys.readouterr()
    train(other, run, CPU, resume=True)
    assert "tokenizer" not in capsys.readouterr().out


@pytest.mark.extended
def test_what_waits_for_a_tokenizer_says_how_long(text_config, tmp_path, go, monkeypatch):
    said = []

    def say(text):
        said.append(text)
        go.touch()

    monkeypatch.setattr(tokenizer, "say", say)
    without_a_word = threading.Timer(60, go.touch)
    without_a_word.start()
    train(read_config(text_config), tmp_path / "run", CPU)
    without_a_word.cancel()
    waiting = r"the parser is trained, and the tokenizer is being trained: 50%, (a few seconds|about .*) left"
    assert re.fullmatch(waiting, said[0])
    assert said[1].startswith("tokenizer trained in")


@pytest.mark.extended
def test_a_broken_tokenizer_is_replaced(text_config, tmp_path, go, capsys):
    config, run = read_config(text_config), tmp_path / "run"
    kept = run / "model" / "tokenizer.json"
    go.touch()
    train(config, run, CPU)
    trained = kept.read_bytes()
    unsound = StoredTokenizer(config.tokenizer, {"tiny": b"abc"})
    for content in (tokenizer_as_json(unsound), b"{}"):
        kept.write_bytes(content)
        train(config, run, CPU, resume=True)
        assert f"{kept}: is broken; it is replaced when" in capsys.readouterr().out
        assert kept.read_bytes() == trained


@pytest.mark.extended
@pytest.mark.parametrize("begins_anew", [False, True])
def test_what_a_killed_training_has_left_is_removed(text_config, tmp_path, begins_anew):
    config, run = read_config(text_config, ["tokenizer=null"]), tmp_path / "run"
    train(config, run, CPU)
    left, kept = run / ".tokenizer-training-left", run / "tokenizer-of-mine"
    left.mkdir()
    (left / "train").touch()
    kept.mkdir()
    train(config, run, CPU, resume=not begins_anew)
    ended = tmp_path / "run.1" if begins_anew else run
    assert [path.name for path in ended.glob("*tokenizer*")] == [kept.name]


@pytest.mark.parametrize(
    "settings", first_of(["{kind: lines}", "{kind: spacy, language: en}", "{kind: blanks}"])
)
def test_a_tokenizer_that_needs_no_training(tmp_path, settings, trained):
    """The treebank's words are found in its text. A tokenizer of another kind then replaces this one."""
    pytest.importorskip("spacy")
    run = tmp_path / "run"
    assert "text  Tokens 100.00" in trained("training.epochs=1", f"tokenizer={settings}")
    assert json.loads((run / "result.json").read_text())["text"]["words"] == 100
    kept = run / "model" / "tokenizer.json"
    other = "blanks" if "lines" in settings else "lines"
    printed = trained("training.epochs=1", f"tokenizer={{kind: {other}}}", "--resume")
    assert f"{kept}: has other settings; it is replaced\n" in printed
    assert tokenizer_from_json(kept.read_bytes()).settings.kind == other


def test_why_a_tokenizer_can_not_be_trained_is_named(text_config, tmp_path, refused, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    assert "can be read only once" in refused(f"treebank.train={tmp_path / 'pipe'}")
    assert not (tmp_path / "run").exists()

    def started(settings, folder, treebanks, log, line):
        log.write_text("Traceback\nValueError: nothing to learn\n")
        return subprocess.Popen(["false"], start_new_session=True)

    monkeypatch.setattr(tokenizer, "start_training", started)
    assert "tiny: the tokenizer could not be trained: nothing to learn; see " in refused()


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_training_of_a_tokenizer_ends_with_a_killed_run(text_config, tmp_path, number):
    """A signal that the run gets ends it immediately, and nothing is left of it."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "parser", "train", str(text_config), "--run", str(run)]
    for steps in ("least_steps", "most_steps"):
        command += ["--set", f"tokenizer.{steps}=1000000"]
    with running(command, stderr=subprocess.PIPE) as process:
        wait_until(
            lambda: (run / "tokenizer.log").exists() and (run / "tokenizer.log").stat().st_size, process
        )
        [folder] = run.glob(".tokenizer-training-*")
        process.send_signal(number)
        code, told = process.wait(), process.stderr.read()
        if number == signal.SIGTERM:
            assert code == 128 + signal.SIGTERM
            assert b"continue with stack-parser train --resume" in told
            assert not folder.exists()
        while is_mentioned(folder):
            time.sleep(0.05)


@pytest.mark.extended
def test_each_treebank_gets_a_tokenizer(config_file, tmp_path, trained):
    """One that has seen no blank between its words, and one that has seen no other."""
    joined = tmp_path / "joined.conllu"
    text = (tmp_path / "tiny.conllu").read_text(encoding="utf-8")
    lines = [f"{line[:-1]}SpaceAfter=No" if line.endswith("\t_") else line for line in text.split("\n")]
    joined.write_text("\n".join(line for line in lines if not line.startswith("# text")), encoding="utf-8")
    settings = json.dumps({**SETTINGS, "least_steps": 60, "most_steps": 60})
    files = [str(tmp_path / "tiny.conllu"), str(joined)]
    trained(f"treebank.train={files}", "parser.network.treebank_size=4", f"tokenizer={settings}")
    model = tmp_path / "run" / "model"
    assert list(tokenizer_of(model, "raw").contents) == ["tiny", "joined"]
    contents = tokenizer_of(model, "raw").contents
    assert contents["tiny"] != contents["joined"]
    for treebank in (None, "tiny", "joined"):
        found = text_reader(model, "raw", treebank).sentences("dogs bark")
        assert [word for one in found for word in one.words] == ["dogs", "bark"]
    with pytest.raises(ValueError, match="no tokenizer of the treebank other, but of tiny, joined"):
        text_reader(model, "raw", "other")


def test_the_log_of_several_trainings_says_how_far_they_are():
    settings = tokenizer_from_json(KEPT.read_bytes()).settings
    log = ""
    for share, line in [
        (0, ""),
        (0, "treebank 1 of 2"),
        (0.25, "step 5 of 10: loss 1"),
        (0.5, "treebank 2 of 2"),
    ]:
        log += f"{line}\n"
        assert share_done(settings, log) == share
    assert share_done(settings, f"{log}step 10 of 10: loss 1\n") == 1
