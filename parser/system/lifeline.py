"""Programs that end with this process, also if it is killed and can do nothing more for them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

WATCHED = 'exec {0}<&0 </dev/null; {{ read -r _ <&{0}; kill -KILL 0; }} >/dev/null 2>&1 & exec {0}<&- "$@"'
"""For a shell that becomes the program. Before, it starts a watcher in the same process group, which waits
for the end of a pipe, and then kills the group. The program needs to know nothing of it."""


@contextmanager
def lifeline() -> Iterator[int]:
    """A pipe for `start_process`, whose other end is closed with the block, or with this process."""
    ours, theirs = os.pipe()
    try:
        yield ours
    finally:
        os.close(theirs)
        os.close(ours)


def start_process(
    command: Sequence[str], lifeline: int, pass_fds: Sequence[int] = (), **how: Any
) -> subprocess.Popen[Any]:
    """A program in a process group of its own, which is killed when the lifeline ends.

    It has no input, and Ctrl-C does not reach it. pass_fds and how: as for Popen.
    """
    unused = next(number for number in range(3, 10) if number not in pass_fds)  # shells know one digit
    shell = ["/bin/sh", "-c", WATCHED.format(unused), "sh", *command]
    return subprocess.Popen(shell, stdin=lifeline, pass_fds=pass_fds, start_new_session=True, **how)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program if it runs, and all that is left of its group."""
    with suppress(ProcessLookupError, PermissionError):  # macOS has the latter for the dead
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
