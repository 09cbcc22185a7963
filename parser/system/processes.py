"""Starts programs that end with this process, even if it is killed and cannot end them itself; and Python in
other processes that find the same modules as this one.

By default Python searches the working folder first, where a file of the user may have the name of a module
of the program or of a library, `parser.py` above all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

WATCHED = 'exec {0}<&0 </dev/null; {{ read -r _ <&{0}; kill -KILL 0; }} >/dev/null 2>&1 & exec {0}<&- "$@"'
"""Script of a shell that becomes the program. First it starts a watcher in the same process group, which
waits for the end of a pipe, and then kills the group. The program need not know about it."""


def python(*arguments: str) -> list[str]:
    """Return a command to be run with `environment`. With -P the working folder is not searched."""
    return [sys.executable, "-P", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of this process with more variables, and with the folders of its modules."""
    folders = os.pathsep.join(map(os.path.abspath, sys.path))
    return {**os.environ, "PYTHONPATH": folders, **variables}


@contextmanager
def environment_for_children() -> Iterator[None]:
    """Set variables while a library starts processes: its command is fixed, but -P is a variable, too."""
    variables = environment(PYTHONSAFEPATH="1")
    # Only these two variables: threads may need the other ones meanwhile.
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    os.environ.update({name: variables[name] for name in before})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def lifeline() -> Iterator[int]:
    """Open a pipe for `start_process`. Its other end is closed at the end of the block or of this process."""
    ours, theirs = os.pipe()
    try:
        yield ours
    finally:
        os.close(theirs)
        os.close(ours)


def start_process(
    command: Sequence[str], lifeline: int, pass_fds: Sequence[int] = (), **how: Any
) -> subprocess.Popen[Any]:
    """Start a program in its own process group, which is killed when the lifeline ends.

    The program has no input, and Ctrl-C does not reach it. pass_fds and how: see Popen.
    """
    unused = next(number for number in range(3, 10) if number not in pass_fds)  # shells support one digit
    shell = ["/bin/sh", "-c", WATCHED.format(unused), "sh", *command]
    return subprocess.Popen(shell, stdin=lifeline, pass_fds=pass_fds, start_new_session=True, **how)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program if it is running, and the rest of its process group."""
    with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for dead ones
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
