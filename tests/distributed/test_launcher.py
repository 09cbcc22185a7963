"""`stack-parser train --processes` as users start and stop it."""

import json
import signal
import subprocess
import sys

import pytest
from programs import running, wait_until

pytestmark = pytest.mark.extended

LONG = "training.epochs=100000"
DIVERGING = "training.learning_rate={start: 1e30, peak: 1e30, warmup_epochs: 0}"


def train(config_file, run, *changes, resume=False):
    """A program that runs."""
    arguments = [f"--set={change}" for change in changes] + (["--resume"] if resume else [])
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
    return running([*program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stopped(config_file, run, stop):
    """What a long run says, and its exit code, after stop(process) in the midst of it."""
    with train(config_file, run, LONG) as process:
        wait_until(
            lambda: (run / "metrics.jsonl").is_file() and (run / "metrics.jsonl").stat().st_size, process
        )
        stop(process)
        _, told = process.communicate()
    return told, process.returncode


def test_a_signal_ends_all_with_one_message(config_file, tmp_path):
    told, code = stopped(config_file, tmp_path / "run", lambda process: process.send_signal(signal.SIGTERM))
    assert code == 128 + signal.SIGTERM
    assert told.count("\n") == 1, told
    assert "everything is saved, continue with --resume" in told


@pytest.mark.parametrize(("rank", "saved"), [(0, "the last checkpoint is kept"), (1, "everything is saved")])
def test_one_message_tells_of_the_death_of_a_process(config_file, tmp_path, rank, saved):
    def kill_one(process):
        children = subprocess.run(
            ["pgrep", "-P", str(process.pid), "-f", "parser train"],
            capture_output=True,
            text=True,
            check=True,
        )
        subprocess.run(["kill", "-9", children.stdout.split()[rank]], check=True)

    told, code = stopped(config_file, tmp_path / "run", kill_one)
    assert code == 128 + signal.SIGKILL
    assert told.count("\n") == 1, told
    assert "one of the 2 processes has ended without a message" in told
    assert f"{saved}, continue with --resume" in told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([DIVERGING, "training.max_grad_norm=1e30"], "is not a finite number"),
        pytest.param(["treebank.train=nowhere.conllu"], "nowhere.conllu: No such file"),
        pytest.param(["training.batch_size=none"], "training.batch_size"),
    ],
)
def test_one_message_tells_what_is_wrong(config_file, tmp_path, changes, message):
    with train(config_file, tmp_path / "run", *changes) as process:
        _, told = process.communicate()
    assert process.returncode == 2
    assert message in told
    assert told.count("\n") == 1, told


def test_only_the_first_process_writes(config_file, tmp_path):
    with train(config_file, tmp_path / "run") as process:
        said, told = process.communicate()
    assert (process.returncode, told) == (0, "")
    assert said.count("best model:") == 1
    assert json.loads((tmp_path / "run" / "result.json").read_text())["processes"] == 2
