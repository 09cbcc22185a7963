"""Programs that end while their daemon threads parse."""

import subprocess
import sys

import pytest
from extended import extended

PROGRAM = """
import atexit, os, sys, threading, time
{before}
import parser

def work():
    while True:
        {parse}
        started.set()

loaded = parser.load("tests/model", device="cpu")
words, started = "Cats sleep on the mat".split(), threading.Event()
for _ in range({threads}):
    threading.Thread(target=work, daemon=True).start()
started.wait()
{end}
sys.exit(7)
"""
ALONE, TOGETHER = "loaded.parse(words)", "list(loaded.parse_all([words] * 100))"
AT_EXIT = 'atexit.register(lambda: print(len(loaded.parse(words).heads), "heads"))'
IN_FORK = "if os.fork() == 0: sys.exit(0)\nassert os.wait()[1] == 0"


def ended(parse, threads, before="", end=""):
    """The exit code, output and errors of a program."""
    program = PROGRAM.format(parse=parse, threads=threads, before=before, end=end)
    command = [sys.executable, "-W", "ignore", "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("parse", "threads", "times"),
    [(ALONE, 1, 2), *extended((ALONE, 3, 3), (TOGETHER, 1, 3), (TOGETHER, 3, 3))],
)
def test_the_exit_code_is_that_of_the_program(parse, threads, times):
    for _ in range(times):
        assert ended(parse, threads) == (7, "", "")


@pytest.mark.extended
def test_what_runs_at_the_exit_may_parse():
    """In the thread that ends the interpreter, even after the others have been stopped."""
    assert ended(ALONE, 2, before=AT_EXIT) == (7, "5 heads\n", "")


@pytest.mark.extended
def test_a_forked_process_ends_although_a_thread_that_it_lacks_computed():
    for _ in range(2):
        assert ended(TOGETHER, 2, end=IN_FORK) == (7, "", "")
