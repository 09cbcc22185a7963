"""Starting a command several times on one machine, with a single message at the end.

The processes get the environment variables that torchrun sets. The launcher does not import PyTorch.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack

from parser.system.console import warn
from parser.system.interruption import SIGNALLED, SIGNALS, StopRequest, stop_request
from parser.system.processes import end, environment, lifeline, python, start_process

HOST = "127.0.0.1"
LISTENER = "PARSER_LISTENER"
"""Environment variable of the first process: the number of an open socket for the common store. The socket is
bound before the processes start, so that no other program can take its port."""
WORD = "PARSER_WORD"
"""Environment variable of all: the number of a pipe with one byte. The process that reads it reports."""
ANOTHER_REPORTS = 3
"""Exit code of a process that has failed and leaves the report, and so the exit code of all, to another."""
SECONDS_TO_REPORT = 60
"""Seconds that the process which reports has, after another has left the report to it."""
SECONDS_TO_SAVE = 600
"""Seconds after a signal before a process is killed."""
SECONDS_BETWEEN_CHECKS = 0.1


def is_one_of_several() -> bool:
    """Whether this process was started together with others, by torchrun or by `launch`."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


def lost_process(count: int) -> str:
    """The start of the message for users if one of several processes was killed."""
    why = "it may have been killed because memory ran out"
    return f"one of the {count} processes has ended without a message; {why}"


def launch(arguments: Sequence[str], count: int) -> int:
    """Run `python -m parser` with the arguments in `count` processes, and pass signals on to them.

    The processes end when this one does, for whatever reason. Returns the exit code of the first failure,
    or 0.
    """
    word, theirs = os.pipe()
    os.write(theirs, b".")
    os.close(theirs)
    with stop_request(says_so=False) as request, ExitStack() as stack:
        stack.callback(os.close, word)
        workers = _start_workers(arguments, count, word, stack)
        try:
            code = _wait_for_end(workers, request)
        except KeyboardInterrupt:  # from a second signal
            code = SIGNALLED + (request.signal or signal.SIGINT)
        finally:
            for worker in workers:
                end(worker)
        if code > SIGNALLED and os.read(word, 1):  # no process has reported
            was_asked = code - SIGNALLED in SIGNALS
            warn("interrupted" if was_asked else lost_process(count))
        return code


def _start_workers(
    arguments: Sequence[str], count: int, word: int, stack: ExitStack
) -> list[subprocess.Popen[bytes]]:
    """Start the processes. stack: ends them when it is closed."""
    line = stack.enter_context(lifeline())
    command = python("-m", "parser", *arguments)
    workers = []
    with socket.create_server((HOST, 0)) as listener:
        for rank in range(count):
            files = {WORD: word} if rank else {WORD: word, LISTENER: listener.fileno()}
            variables = {
                "TORCHELASTIC_RUN_ID": os.getpid(),
                "MASTER_ADDR": HOST,
                "MASTER_PORT": listener.getsockname()[1],
                "WORLD_SIZE": count,
                "RANK": rank,
                "LOCAL_RANK": rank,
                **files,
            }
            texts = {name: str(value) for name, value in variables.items()}
            workers.append(start_process(command, line, tuple(files.values()), env=environment(**texts)))
    return workers


def _wait_for_end(workers: Sequence[subprocess.Popen[bytes]], request: StopRequest) -> int:
    """Wait until all processes have ended, by themselves or after a signal; returns the exit code.

    Raises KeyboardInterrupt at a second signal.
    """
    last_moment = math.inf
    while None in _codes(workers) and not _failures(workers) and not request.signal:
        if last_moment == math.inf and ANOTHER_REPORTS in _codes(workers):
            last_moment = time.monotonic() + SECONDS_TO_REPORT
        if time.monotonic() > last_moment:
            break
        time.sleep(SECONDS_BETWEEN_CHECKS)
    # Polled again: a killed process has ended before those that failed because of it.
    failures = _failures(workers)
    asked = request.signal or signal.SIGTERM
    for worker in workers:
        # In a process that is still starting, SIGINT would print a traceback.
        worker.send_signal(signal.SIGTERM if asked == signal.SIGINT else asked)
    deadline = time.monotonic() + SECONDS_TO_SAVE
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            end(worker)
    if failures:
        # Codes of killed processes are negative. A library may abort because another process has failed.
        first = min(failures, key=lambda code: (code == -signal.SIGABRT, code))
        return SIGNALLED - first if first < 0 else first
    if request.signal and any(_codes(workers)):
        return SIGNALLED + request.signal
    return max(filter(None, _codes(workers)), default=0)


def _failures(workers: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    return [code for code in _codes(workers) if code and code != ANOTHER_REPORTS]


def _codes(workers: Sequence[subprocess.Popen[bytes]]) -> list[int | None]:
    return [worker.poll() for worker in workers]
