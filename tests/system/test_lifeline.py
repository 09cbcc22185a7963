"""Programs that end with the one that started them."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from programs import running

from parser.system.lifeline import end, lifeline, start_process

FAMILY = "sleep 1000 & echo $!; exec sleep 1000"
"""A program with a child, whose number it prints."""
STARTER = f"""
import sys, time
from parser.system.lifeline import lifeline, start_process
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
            command = [
                sys.executable,
                "-c",
                f"import os; os.write({theirs}, b'more\\n'); print('told'); exit(7)",
            ]
        with start_process(command, line, pass_fds=(theirs,), stdout=subprocess.PIPE, text=True) as process:
            os.close(theirs)
            said, _ = process.communicate()  # though the watcher still waits
        end(process)  # the watcher, too, has the file
        assert (said, process.returncode, file.read()) == ("told\n", 7, "more\n")
