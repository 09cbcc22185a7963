"""Starts programs that end with this process, even if it is killed and cannot end them itself."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

WATCHED = 'exec {0}<&0 </dev/null; {{ read -r _ <&{0}; kill -KILL 0; }} >/dev/null 2>&1 & exec {0}<&- "$@"'
"""Script of a shell that becomes the program. First it starts a watcher in the same process group, which
waits for the end of a pipe, and then kills the group. The program need not know about it."""


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
