"""Starting a command several times on one machine, with one message at its end.

The processes have the environment variables that torchrun sets. This one imports no PyTorch.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from parser.system.console import warn
from parser.system.interruption import SIGNALLED, SIGNALS, StopRequest, stop_request
from parser.system.lifeline import end, lifeline, start_process
from parser.system.python_processes import environment, python

HOST = "127.0.0.1"
LISTENER = "PARSER_LISTENER"
"""Environment variable of the first process: the number of an open socket, on which the store of all listens.
Its port is no other program's, since it was bound before the processes start."""
WORD = "PARSER_WORD"
"""Environment variable of all: the number of an open pipe with a byte. Who reads it tells what went wrong."""
SECONDS_TO_SAVE = 600
"""After a signal, before a process is killed."""
SECONDS_BETWEEN_CHECKS = 0.1


def is_one_of_several() -> bool:
    """Whether this process was started, with others beside it, by torchrun or by `launch`."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


def lost_process(count: int) -> str:
    """Begins the message for users if one of several processes was killed."""
    why = "it may have been killed because memory ran out"
    return f"one of the {count} processes has ended without a message; {why}"


def launch(arguments: Sequence[str], count: int) -> int:
    """Run `python -m parser` with the arguments in `count` processes, to which signals are passed.

    They end with this process, however it ends. Returns the exit code of the first failure, or 0.
    """
    with stop_request(says_so=False) as request, _word() as word, ExitStack() as stack:
        workers = _start_workers(arguments, count, word, stack)
        try:
            code = _wait_for_end(workers, request)
        except KeyboardInterrupt:  # by a second signal
            code = SIGNALLED + (request.signal or signal.SIGINT)
        finally:
            for worker in workers:
                end(worker)
        if code > SIGNALLED and os.read(word, 1):  # none of them has told
            was_asked = code - SIGNALLED in SIGNALS
            warn("interrupted" if was_asked else lost_process(count))
        return code


@contextmanager
def _word() -> Iterator[int]:
    ours, theirs = os.pipe()
    os.write(theirs, b".")
    os.close(theirs)
    try:
        yield ours
    finally:
        os.close(ours)


def _start_workers(
    arguments: Sequence[str], count: int, word: int, stack: ExitStack
) -> list[subprocess.Popen[bytes]]:
    """stack: ends them."""
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
            own = environment(**{name: str(value) for name, value in variables.items()})
            workers.append(start_process(command, line, tuple(files.values()), env=own))
    return workers


def _wait_for_end(workers: Sequence[subprocess.Popen[bytes]], request: StopRequest) -> int:
    """The exit code when all processes have ended, by themselves or after a signal.

    Raises KeyboardInterrupt at a second signal.
    """
    while None in _codes(workers) and not any(_codes(workers)) and not request.signal:
        time.sleep(SECONDS_BETWEEN_CHECKS)
    # Asked anew: a process that was killed has ended before those that failed for want of it.
    failures = [code for code in _codes(workers) if code]
    _stop(workers, request.signal or signal.SIGTERM)
    if failures:
        # Those of killed processes are negative. A library may abort for want of a process that has failed.
        first = min(failures, key=lambda code: (code == -signal.SIGABRT, code))
        return SIGNALLED - first if first < 0 else first
    return SIGNALLED + request.signal if request.signal and any(_codes(workers)) else 0


def _codes(workers: Sequence[subprocess.Popen[bytes]]) -> list[int | None]:
    return [worker.poll() for worker in workers]


def _stop(workers: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    """Signal the processes that run, and wait until they have saved."""
    for worker in workers:
        # In a process that is starting, SIGINT would print where it is.
        worker.send_signal(signal.SIGTERM if number == signal.SIGINT else number)
    deadline = time.monotonic() + SECONDS_TO_SAVE
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            end(worker)
