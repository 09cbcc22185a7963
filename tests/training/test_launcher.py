"""`stack-parser train --processes` as users start and stop it."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from programs import children_of, running, temporary, wait_until

from parser.training import launcher
from parser.training.launcher import ANOTHER_REPORTS, launch

PROGRAM = """#!{python} -SE
import os, signal, sys, time

def asked(number, frame):
    open("asked-%d-%d" % (rank, number), "x")
    {asked}

def tell(text):
    if os.read(int(os.environ["PARSER_WORD"]), 1):
        sys.stderr.write(text)

signal.signal(signal.SIGTERM, asked)
rank = int(os.environ["RANK"])
open("ready-%d" % rank, "x")
while len([name for name in os.listdir(".") if name.startswith("ready")]) < 2:
    time.sleep(0.01)
{does}
"""
"""Stands for Python with a command that trains, which would take seconds to start."""
END, WAIT, DIE = "os._exit(128 + number)", "time.sleep(1000)", "os.kill(os.getpid(), signal.SIGKILL)"
LOST = "one of the 2 processes has ended without a message; it may have been killed because memory ran out\n"
LONG = "training.epochs=100000"
DIVERGING = "training.learning_rate={start: 1e30, peak: 1e30, warmup_epochs: 0}"


@pytest.fixture
def launched(monkeypatch, tmp_path, capfd):
    """launched(does, asked): what the launcher returns and prints for two processes that do `does`."""
    monkeypatch.chdir(tmp_path)

    def launch_program(does, asked=END):
        program = tmp_path / "program"
        program.write_text(PROGRAM.format(python=sys.executable, does=does, asked=asked))
        program.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(program))
        return launch(["train"], 2), capfd.readouterr().err

    return launch_program


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        ("pass", 0, ""),
        ("tell('wrong\\n'); sys.exit(2)", 2, "wrong\n"),
        (f"if rank: tell('wrong\\n'); sys.exit(2)\n{WAIT}", 2, "wrong\n"),
        # The other process ends first, and leaves the report to this one.
        (
            f"if rank: sys.exit({ANOTHER_REPORTS})\ntime.sleep(1)\ntell('wrong\\n'); sys.exit(2)",
            2,
            "wrong\n",
        ),
        # The other process notices the death and reports it, or has not got that far.
        (f"if rank: {DIE}\ntell('lost\\n'); sys.exit(2)", 128 + signal.SIGKILL, "lost\n"),
        (f"if rank: {DIE}\n{WAIT}", 128 + signal.SIGKILL, LOST),
    ],
)
def test_one_message_and_the_exit_code_of_the_first_failure(launched, does, code, told):
    assert launched(does) == (code, told)


def test_a_process_that_hangs_instead_of_reporting_is_ended(launched, monkeypatch):
    monkeypatch.setattr(launcher, "SECONDS_TO_REPORT", 0.5)
    code, _ = launched(f"if rank: sys.exit({ANOTHER_REPORTS})\ntell('wrong\\n')\n{WAIT}")
    assert code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_once(launched, tmp_path, number):
    """As SIGTERM."""
    found = launched(f"if rank: os.kill(os.getppid(), {number:d})\n{WAIT}")
    assert found == (128 + number, "interrupted\n")
    asked = {path.name for path in tmp_path.glob("asked*")}
    assert asked == {f"asked-{rank}-{signal.SIGTERM:d}" for rank in (0, 1)}


def test_a_second_signal_stops_at_once(launched):
    send = "os.kill(os.getppid(), signal.SIGTERM)"
    found = launched(f"if rank: {send}\n{WAIT}", asked=f"if rank: {send}")
    assert found == (128 + signal.SIGTERM, "interrupted\n")


def train(config_file, run, *changes, **how):
    """A program that runs."""
    program = [
        sys.executable,
        "-m",
        "parser",
        "train",
        str(config_file),
        "--run",
        str(run),
        "--processes",
        "2",
    ]
    arguments = [f"--set={change}" for change in changes]
    return running([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def stopped(config_file, run, stop):
    """The one line that a long run tells, and its exit code, if stop(process) is called during the run."""
    metrics = run / "metrics.jsonl"
    with train(config_file, run, LONG) as process:
        wait_until(lambda: metrics.is_file() and metrics.stat().st_size, process)
        stop(process)
        _, told = process.communicate()
    assert told.count("\n") == 1, told
    return told, process.returncode


@pytest.mark.extended
def test_a_signal_ends_all_with_one_message(config_file, tmp_path):
    told, code = stopped(config_file, tmp_path / "run", lambda process: process.send_signal(signal.SIGTERM))
    assert code == 128 + signal.SIGTERM
    assert "everything is saved, continue with stack-parser train --resume" in told


def assert_nothing_is_left(children, folder):
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert list(folder.iterdir()) == []


@pytest.mark.extended
def test_nothing_is_left_when_the_launcher_is_killed(config_file, tmp_path):
    run, folder = tmp_path / "run", tmp_path / "temporary"
    with train(config_file, run, LONG, env=temporary(folder)) as process:
        wait_until((run / "checkpoint.safetensors").is_file, process)
        children = children_of(process)
        assert len(children) >= 2
        process.kill()
        assert_nothing_is_left(children, folder)


@pytest.mark.extended
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_processes_start_ends_all(config_file, tmp_path, number):
    run, folder = tmp_path / "run", tmp_path / "temporary"
    with train(config_file, run, LONG, env=temporary(folder)) as process:
        wait_until(lambda: len(children_of(process)) >= 2, process)
        children = children_of(process)
        process.send_signal(number)
        _, told = process.communicate()
        assert_nothing_is_left(children, folder)
    assert (process.returncode, told) == (128 + number, "interrupted\n")


@pytest.mark.extended
@pytest.mark.parametrize(("rank", "saved"), [(0, "the last checkpoint is kept"), (1, "everything is saved")])
def test_one_message_tells_of_the_death_of_a_process(config_file, tmp_path, rank, saved):
    def kill_one(process):
        command = ["pgrep", "-P", str(process.pid), "-f", "parser train"]
        children = subprocess.run(command, capture_output=True, text=True, check=True)
        os.kill(int(children.stdout.split()[rank]), signal.SIGKILL)

    told, code = stopped(config_file, tmp_path / "run", kill_one)
    assert code == 128 + signal.SIGKILL
    assert "one of the 2 processes has ended without a message" in told
    assert f"{saved}, continue with stack-parser train --resume" in told


@pytest.mark.extended
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([DIVERGING, "training.max_grad_norm=1e30"], "is not a finite number"),
        (["treebank.train=nowhere.conllu"], "nowhere.conllu: No such file"),
        (["training.batch_size=none"], "training.batch_size"),
    ],
)
def test_one_message_tells_what_is_wrong(config_file, tmp_path, changes, message):
    with train(config_file, tmp_path / "run", *changes) as process:
        _, told = process.communicate()
    assert process.returncode == 2
    # A library that aborts because the other process is gone prints that itself.
    own = [line for line in told.splitlines() if not line.startswith(("terminate called", "  what():"))]
    assert len(own) == 1, told
    assert message in own[0]


@pytest.mark.extended
def test_only_the_first_process_writes(config_file, tmp_path):
    with train(config_file, tmp_path / "run") as process:
        said, told = process.communicate()
    assert process.returncode == 0, told
    assert told == ""
    assert said.count("best model:") == 1
    assert json.loads((tmp_path / "run" / "result.json").read_text())["processes"] == 2
