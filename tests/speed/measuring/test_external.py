"""Other programs in the same turns, and the parsers of docs/speed.md in an environment without ours."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from programs import is_mentioned, make_foreign

from parser.cli import main
from parser.speed.measuring.cells import External
from parser.speed.measuring.external import ExternalError, printed_speed
from parser.speed.measuring.rows import ExternalProgram

PATTERN = r"([\d.,]+) sentences/s"


def program(code, pattern=PATTERN):
    return ExternalProgram("it", f'{sys.executable} -c "{code}"', pattern)


@pytest.mark.parametrize(
    ("code", "speed"),
    [
        ("print('10 words, 1,234.5 sentences/s')", 1234.5),
        ("import sys; print('7 sentences/s', file=sys.stderr)", 7.0),
        ("import os; print(os.environ['HOME'] and '3 sentences/s')", 3.0),
    ],
)
def test_the_speed_that_is_printed(code, speed):
    assert printed_speed(program(code), timeout=60) == speed


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('done')", r"its output has no .* done"),
        ("print('oh no'); raise SystemExit(3)", "ended with status 3: oh no"),
        ("print('0 sentences/s')", "printed a speed of 0"),
        ("print('.. sentences/s')", "'..' is no number of sentences per second"),
        ("import time; time.sleep(60)", "no end after 0.5 s"),
        ("print('at 7 words/s')", "its output has no"),
    ],
)
def test_what_goes_wrong(code, message):
    timeout = 0.5 if "sleep" in code else 60
    with pytest.raises(ExternalError, match=message):
        printed_speed(program(code), timeout)


@pytest.mark.parametrize(
    ("pattern", "message"), [("no group", "needs a group"), ("(", "no regular expression")]
)
def test_patterns_that_find_nothing(pattern, message):
    with pytest.raises(ValueError, match=message):
        External(command="true", pattern=pattern)


@pytest.fixture
def config(tmp_path):
    """Programs that record their runs: a slow one, one that fails, and one twice as fast as the slow one."""
    runs = tmp_path / "runs.txt"
    text = "external_turns: 3\nexternal:\n"
    for name, code in (
        ("slow", "print('100 sentences/s')"),
        ("broken", "raise SystemExit('no model')"),
        ("fast", "print('200 sentences/s')"),
    ):
        command = f'echo {name} >> {runs}; {sys.executable} -c "{code}"'
        text += f"  {name}: {{command: {json.dumps(command)}, pattern: '([0-9]+) sentences/s'}}\n"
    path = tmp_path / "programs.yaml"
    path.write_text(text)
    return path


def test_programs_take_turns(config, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["speed", str(config), "--run", str(run)]) == 0
    # The first of four turns is not counted; a program that fails is not started again.
    assert (tmp_path / "runs.txt").read_text().split() == ["slow", "broken", "fast", *["slow", "fast"] * 3]
    rows = {row["name"]: row for row in map(json.loads, (run / "external.jsonl").read_text().splitlines())}
    assert rows["slow"]["speeds"] == [100.0] * 3
    assert rows["fast"]["speeds"] == [200.0] * 3
    assert rows["broken"]["status"] == "error: it ended with status 1: no model"
    assert rows["fast"]["machine"]["cores"]
    report = (run / "report.md").read_text()
    assert "| fast | 200 | 200 to 200 | 2.00 [2.00, 2.00] | 3 |" in report
    assert "broken: error: it ended with status 1: no model." in report
    assert (run / "plots" / "programs.svg").is_file()
    # Since one program failed, the same command measures all of them again, in the same turns.
    config.write_text(config.read_text().replace("raise SystemExit('no model')", "print('50 sentences/s')"))
    (run / "external.jsonl").write_text((run / "external.jsonl").read_text() + '{"half a line')
    assert main(["speed", str(config), "--run", str(run)]) == 0
    assert "| broken | 50 |" in (run / "report.md").read_text()
    before = (tmp_path / "runs.txt").read_text()
    assert before.split()[-9:] == ["slow", "broken", "fast"] * 3
    # Existing results are not measured again, and can be drawn again.
    assert main(["speed", str(config), "--run", str(run)]) == 0
    assert main(["plots", str(run)]) == 0
    assert (tmp_path / "runs.txt").read_text() == before


def test_programs_of_a_task_take_turns_and_are_compared(tmp_path, capsys):
    log, model, run = tmp_path / "runs.txt", tmp_path / "model", tmp_path / "run"
    text = "external_turns: 1\nexternal:\n"
    for name, speed, more in (
        ("first", 100, "task: trees"),
        ("peer", 50, f"task: trees, needs: ['{model}']"),
        ("other", 10, "task: tags"),
        ("last", 300, "task: trees"),
    ):
        command = f"echo {name} >> {log}; echo {speed} sentences/s"
        text += f"  {name}: {{command: '{command}', pattern: '([0-9]+) sentences/s', {more}}}\n"
    config = tmp_path / "programs.yaml"
    config.write_text(text)

    def measured():
        assert main(["speed", str(config), "--run", str(run)]) == 0
        started = log.read_text().split()
        log.write_text("")
        return started

    assert measured() == ["first", "last"] * 2 + ["other"] * 2
    report = (run / "report.md").read_text()
    assert f"peer: skipped: no {model}." in report
    assert "| last | 300 | 300 to 300 | 3.00 [3.00, 3.00] | 1 |" in report
    assert "| other | 10 | 10 to 10 | 1.00 [1.00, 1.00] | 1 |" in report
    assert measured() == []  # the peer is still missing
    model.touch()
    assert measured() == ["first", "peer", "last"] * 2
    assert "| peer | 50 | 50 to 50 | 0.50 [0.50, 0.50] | 1 |" in (run / "report.md").read_text()


def test_what_is_left_and_what_is_missing(config, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["speed", str(config), "--run", str(run), "--minutes", "1"]) == 2
    printed = capsys.readouterr()
    assert "`external` is left" in printed.out + printed.err
    assert "nothing has been measured yet" in printed.err
    assert main(["train", str(config)]) == 2
    assert "this is a config of `stack-parser speed`: it has 'external'" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_nothing_of_a_program_is_left_running(tmp_path):
    late = tmp_path / "late"
    command = f"(sleep 30; touch {late}) & sleep 60"
    with pytest.raises(ExternalError, match="no end"):
        printed_speed(ExternalProgram("it", command, PATTERN), timeout=0.3)
    while is_mentioned(late):
        time.sleep(0.05)
    assert not late.exists()


def test_a_config_that_measures_nothing(tmp_path, capsys):
    path = tmp_path / "nothing.yaml"
    path.write_text("seconds: 1\n")
    assert main(["speed", str(path), "--run", str(tmp_path / "run")]) == 2
    assert (
        "experiments: there is nothing to measure: name some here, or in `external`"
        in capsys.readouterr().err
    )


PYTHON = "runs/peers/venv/bin/python"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The project's folder with that environment, and with the shipped treebank in place of English EWT."""
    folder = tmp_path / "project"
    monkeypatch.setenv("PYTHONPATH", make_foreign(folder)["PYTHONPATH"])
    monkeypatch.setenv("PARSER_DATA", str(folder / "data"))
    treebank = folder / "data" / "ud" / "UD_English-EWT"
    treebank.mkdir(parents=True)
    for part, ours in (("train", "dev"), ("dev", "dev"), ("test", "test")):  # dev is the smallest
        shutil.copy(f"data/quickstart/{ours}.conllu", treebank / f"en_ewt-ud-{part}.conllu")
    python = folder / PYTHON
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "package", "once"),
    [("spaCy, efficiency", "spacy", "--steps 1"), ("UDPipe 1", "ufal.udpipe", "--iterations 1")],
)
def test_a_peer_is_trained_and_measured_as_the_page_says(name, package, once, folder, monkeypatch):
    pytest.importorskip(package)
    page = Path("docs/speed.md").read_text(encoding="utf-8")
    measured = yaml.safe_load(Path("configs/speed/peers.yaml").read_text(encoding="utf-8"))
    program = measured["external"][name]
    script = re.search(r"scripts/studies/peers/\w+\.py", program["command"])[0]
    [place] = re.findall(r"^    (U=.*)$", page, re.M)
    [train] = re.findall(rf"^    ({PYTHON} {script} train .*)$", page, re.M)
    monkeypatch.chdir(folder)
    subprocess.run(f"{place}\n{train} {once}", shell=True, check=True)
    config = folder / "peers.yaml"
    config.write_text(yaml.safe_dump({"external": {name: program}, "external_turns": 1}))
    assert main(["speed", str(config), "--run", "runs/speed"]) == 0
