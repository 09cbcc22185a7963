"""How programs end: by Ctrl-C, SIGTERM or a closed terminal, and with the program that started them."""

import os
import pty
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import psutil
import pytest
from programs import running, wait_until
from stopped_runs import command as training

from parser.system.interruption import SIGNALS, Interrupted, interruptible, later, stop_request
from parser.system.processes import end, lifeline, start_process


def endless(config_file, run):
    """The command of a training that does not end by itself."""
    return [sys.executable, "-m", "parser", *training(config_file, run, "--set", "training.epochs=5000")]


@pytest.mark.extended
def test_ctrl_c_says_how_to_go_on(config_file, tmp_path):
    with running(endless(config_file, tmp_path / "run"), stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "run" / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "everything is saved, continue with stack-parser train --resume" in errors
    assert "Traceback" not in errors


@pytest.mark.extended
def test_a_run_whose_terminal_closes_is_saved(config_file, tmp_path):
    ours, theirs = pty.openpty()
    with running(endless(config_file, tmp_path / "run"), stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        printed = b""
        while b"epoch   2" not in printed:
            printed += os.read(ours, 1 << 16)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        # Not -SIGHUP: it ended by itself after saving.
        assert process.wait() == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("before", "last", "at_once"),
    [
        (["SIGINT"], "SIGINT", True),
        (["SIGTERM"], "SIGINT", True),
        (["SIGHUP", "SIGTERM"], "SIGTERM", True),
        # One terminal closes, and both the shell and the system say so.
        (["SIGHUP"], "SIGHUP", False),
        (["SIGHUP"], "SIGTERM", False),
        (["SIGTERM"], "SIGHUP", False),
    ],
)
def test_who_asks_twice_is_in_a_hurry_but_for_terminals(before, last, at_once):
    with stop_request() as request:
        for name in before:
            signal.raise_signal(signal.Signals[name])
        with pytest.raises(KeyboardInterrupt) if at_once else nullcontext():
            signal.raise_signal(signal.Signals[last])
        assert request.signal is not None


def test_nohup_is_heeded():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_request() as request:
            signal.raise_signal(signal.SIGHUP)
            assert request.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone():
    def handler():
        with stop_request():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(handler).result() == signal.getsignal(signal.SIGTERM)


def test_an_interruption_is_not_taken_for_a_failure():
    """Such as by libraries, which catch failures and continue without what failed."""
    with interruptible(), pytest.raises(Interrupted) as interrupted, suppress(Exception):
        signal.raise_signal(signal.SIGTERM)
    assert interrupted.value.signal == signal.SIGTERM


def test_an_error_of_cleaning_up_does_not_hide_the_interruption():
    """Such as an error of PyTorch when it undoes what a signal kept it from starting."""

    def load():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise RuntimeError("trying to pop from empty mode stack")

    def load_by_another():
        with suppress(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("of a library that has caught it")

    with pytest.raises(Interrupted), interruptible():
        load()
    with pytest.raises(Interrupted), interruptible():
        load_by_another()
    with pytest.raises(RuntimeError, match="of itself"), interruptible():
        raise RuntimeError("of itself")


def test_a_signal_can_wait():
    done = []

    def go_on():
        with later():
            signal.raise_signal(signal.SIGTERM)
            done.append(True)

    with interruptible(), pytest.raises(Interrupted):
        go_on()
    assert done


PROGRAM = """
import atexit, os, signal, sys, types

def at_end():
    os.kill(os.getpid(), signal.SIGTERM)
    print("at the end")

def main():
    try:
        os.kill(os.getpid(), int(sys.argv[1])) if int(sys.argv[1]) else None
    except BaseException:
        print("lost")
    return 3

atexit.register(at_end)
sys.modules["parser.cli"] = types.SimpleNamespace(main=main)
from parser.__main__ import program
sys.exit(program())
"""


@pytest.mark.parametrize("number", [*SIGNALS, 0])
def test_a_program_can_be_ended_while_it_imports_but_not_while_it_ends(number):
    command = [sys.executable, "-c", PROGRAM, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = (128 + number, "", "interrupted\n") if number else (3, "at the end\n", "")
    assert (done.returncode, done.stdout, done.stderr) == expected


FAMILY = "sleep 1000 & echo $!; exec sleep 1000"
"""A program with a child, whose number it prints."""
STARTER = f"""
import sys, time
from parser.system.processes import lifeline, start_process
with lifeline() as line:
    start_process(["sh", "-c", {FAMILY!r}], line, stdout=sys.stdout)
    time.sleep(1000)
"""


def wait_for_end(*numbers):
    for number in numbers:
        while psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def test_a_program_ends_with_a_starter_that_is_killed():
    with running([sys.executable, "-c", STARTER], stdout=subprocess.PIPE) as starter:
        child = int(starter.stdout.readline())
        [program] = psutil.Process(starter.pid).children()
        while program.name() != "sleep":  # the shell becomes it
            time.sleep(0.01)
        starter.kill()
        wait_for_end(child, program.pid)


@pytest.mark.parametrize("ends", [lambda process: None, end], ids=["with the block", "when it is told"])
def test_a_program_ends(ends):
    with lifeline() as line:
        process = start_process(["sh", "-c", FAMILY], line, stdout=subprocess.PIPE)
        child = int(process.stdout.readline())
        ends(process)
    process.wait()
    wait_for_end(child)
    process.stdout.close()


def test_a_program_has_its_own_output_files_and_exit_code():
    ours, theirs = os.pipe()
    with lifeline() as line, open(ours) as file:
        command = ["sh", "-c", f"echo told; echo more >&{theirs}; cat; exit 7"]
        if theirs > 9:  # more digits than shells know
            code = f"import os; os.write({theirs}, b'more\\n'); print('told'); exit(7)"
            command = [sys.executable, "-c", code]
        with start_process(command, line, pass_fds=(theirs,), stdout=subprocess.PIPE, text=True) as process:
            os.close(theirs)
            said, _ = process.communicate()  # although the watcher still waits
        end(process)  # the watcher has the file open, too
        assert (said, process.returncode, file.read()) == ("told\n", 7, "more\n")
