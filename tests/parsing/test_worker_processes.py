"""Parsing and scoring in several processes: results as in one, and what happens if one dies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from extended import extended
from programs import children_of, is_running, running, temporary, wait_until

from parser.cli import main
from parser.parsing.worker_processes import AHEAD, answers, start_workers
from parser.treebank import conllu

MODEL = "tests/model"
PROCESSES = ("--device", "cpu", "--processes")


class Worker:
    """Runs in its own process."""

    def __init__(self, factor):
        if not factor:
            raise ValueError("not that one")
        self.factor = factor

    def run(self, number):
        if number == "die" or (isinstance(number, Path) and not number.exists()):
            if number != "die":
                number.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if isinstance(number, Path):
            return str(number)
        if number == "wrong":
            raise ValueError("line 3: not that")
        time.sleep(0.001 * (number % 3))
        return self.factor * (10 // (number - 13) + number)


@pytest.mark.extended
def test_answers_come_in_order_and_nothing_runs_far_ahead():
    taken = []

    def work():
        for number in range(13):
            taken.append(number)
            yield number

    with start_workers(Worker, (2,), 3) as workers:
        for place, answer in enumerate(answers(workers, work())):
            assert answer == 2 * (10 // (place - 13) + place)
            assert len(taken) <= place + 1 + AHEAD * 3
    assert len(taken) == 13


@pytest.mark.extended
def test_no_work():
    with start_workers(Worker, (2,), 2) as workers:
        assert list(answers(workers, [])) == []


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("die", "^part die: has ended 3 processes, the last one: killed, .*: use fewer --processes$"),
        *extended(("wrong", "^line 3: not that$")),
    ],
)
def test_a_process_that_fails_is_named(last, message):
    with start_workers(Worker, (2,), 2) as workers, pytest.raises(ValueError, match=message):
        list(answers(workers, [1, 2, 3, last], lambda piece: f"part {piece}"))


def test_a_process_that_dies_is_replaced(tmp_path, capsys):
    fatal = [tmp_path / "once", tmp_path / "and again"]
    with start_workers(Worker, (2,), 2) as workers:
        found = answers(workers, [1, fatal[0], 2, 3, fatal[1], 4])
        assert next(found) == 2 * (10 // -12 + 1)
        for worker in workers:  # some are busy and some are idle
            os.kill(worker._process.pid, signal.SIGKILL)
        assert [isinstance(answer, str) for answer in found] == [True, False, False, True, False]
    told = capsys.readouterr().err
    assert (
        f"killed, perhaps because memory ran out: use fewer --processes. Another one takes over {fatal[0]}"
        in told
    )
    assert str(fatal[1]) in told


@pytest.mark.extended
def test_a_bug_in_a_process_is_no_error_of_the_user():
    with start_workers(Worker, (2,), 2) as workers:
        with pytest.raises(RuntimeError, match=r"process [12] of 2: ZeroDivision") as caught:
            list(answers(workers, [1, 2, 3, 13]))
        assert "in run" in "".join(caught.value.__notes__)  # its own traceback


@pytest.mark.extended
def test_answers_before_an_error_come_first():
    with start_workers(Worker, (2,), 2) as workers:
        found = answers(workers, [2, "wrong", 1])
        assert next(found) is not None
        with pytest.raises(ValueError, match="not that"):
            next(found)


@pytest.mark.extended
def test_an_object_that_can_not_be_made():
    with (
        pytest.raises(ValueError, match="not that one"),
        start_workers(Worker, (0,), 2),
    ):
        pytest.fail("it has started")


@pytest.fixture
def run(config_file, tmp_path):
    """The folder of a finished run."""
    assert main(["train", str(config_file), "--run", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


@pytest.fixture
def small_parts(monkeypatch):
    """Makes parts small; must be requested before `many`."""
    monkeypatch.setattr(conllu, "PART_BYTES", 1 << 14)


@pytest.fixture
def many(tmp_path, run):
    """A file of several parts."""
    once = (tmp_path / "tiny.conllu").read_text()
    path = tmp_path / "many.conllu"
    path.write_text(once * (3 * conllu.PART_BYTES // len(once)))
    return path


def test_trees_and_scores_are_those_of_one_process(small_parts, run, many, tmp_path, capsys):
    model, outputs = str(run / "model"), []
    for processes in "12":
        out = tmp_path / f"{processes}.conllu"
        assert (
            main(["parse", model, str(many), "-o", str(out), *PROCESSES, processes, "--probabilities"]) == 0
        )
        outputs.append(out.read_text())
        capsys.readouterr()
        assert main(["evaluate", model, str(many), *PROCESSES, processes]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[:2] == outputs[2:]


@pytest.mark.extended
def test_faults_are_those_of_one_process(small_parts, run, many, tmp_path, capsys):
    content = many.read_text().splitlines(keepends=True)
    for place in (20, len(content) - 20):  # in the first part and in the last
        place = next(n for n in range(place, len(content)) if content[n][0].isdigit())
        content[place] = "1\tfaulty\n"
    many.write_text("".join(content))
    for command in (["parse", str(run / "model"), str(many)], ["evaluate", str(run / "model"), str(many)]):
        found = []
        for processes in "12":
            assert main([*command, *PROCESSES, processes]) == 2
            found.append(capsys.readouterr().err)
        assert found[0] == found[1]
        assert found[0].count("instead of 10") == 2


@pytest.mark.extended
def test_columns_that_differ_from_training_are_told_once(run, many, capsys):
    many.write_text(many.read_text().replace("\tNOUN\t", "\t_\t").replace("\tVERB\t", "\t_\t"))
    assert main(["evaluate", str(run / "model"), str(many), *PROCESSES, "2"]) == 0
    assert capsys.readouterr().err.count("UPOS is blank for 67% of the words") == 1


@pytest.mark.extended
def test_an_interrupt_ends_all_processes(run, many, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "parser", "parse", str(run / "model"), "-", "-o", str(out / "parsed")]
    with running([*command, *PROCESSES, "2"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(many.read_bytes())
        process.stdin.flush()
        wait_until(lambda: any(out.iterdir()), process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 128 + signal.SIGINT
        assert process.stderr.read() == b"interrupted\n"
        while is_running(process.pid):
            time.sleep(0.05)
    assert list(out.iterdir()) == []


@pytest.mark.extended
@pytest.mark.parametrize(
    ("command", "number"),
    [("parse", signal.SIGINT), ("parse", signal.SIGTERM), ("evaluate", signal.SIGHUP)],
)
def test_a_signal_while_processes_are_loaded_leaves_nothing(short_path, command, number):
    folder = short_path / "temporary"
    program = [sys.executable, "-m", "parser", command, MODEL, f"{MODEL}/parsed.conllu", *PROCESSES, "2"]
    with running(program, env=temporary(folder), stderr=subprocess.PIPE) as process:
        wait_until(lambda: any(folder.iterdir()), process)
        children = children_of(process)
        process.send_signal(number)
        _, told = process.communicate()
        _, alive = psutil.wait_procs(children, timeout=60)
    assert (process.returncode, told) == (128 + number, b"interrupted\n")
    assert alive == list(folder.iterdir()) == []


@pytest.mark.extended
def test_all_processes_end_with_one_that_is_killed(tmp_path, short_path):
    folder, out = short_path / "temporary", tmp_path / "out"
    out.mkdir()
    program = [
        sys.executable,
        "-m",
        "parser",
        "parse",
        MODEL,
        "-",
        "-o",
        str(out / "parsed"),
        *PROCESSES,
        "2",
    ]
    with running(program, env=temporary(folder), stdin=subprocess.PIPE) as process:
        wait_until(lambda: any(out.iterdir()), process)
        children = children_of(process)
        process.kill()
        _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == list(folder.iterdir()) == []
