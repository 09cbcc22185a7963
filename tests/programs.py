"""Programs that tests start: they are waited for as long as they run, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil


@contextmanager
def running(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen]:
    """A program in a process group of its own, all of which ends with the block."""
    with subprocess.Popen(command, start_new_session=True, **how) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """However busy the machine is; fails if the program ends before."""
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode}"
        time.sleep(0.05)


def children_of(process: subprocess.Popen) -> list[psutil.Process]:
    """All processes below it."""
    return psutil.Process(process.pid).children(recursive=True)


def temporary(folder: Path) -> dict[str, str]:
    """An environment with this folder, a new one, for temporary files but those of PyTorch's compiler."""
    folder.mkdir()
    return {**os.environ, "TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": f"{folder}-of-compiler"}


def is_running(group: int) -> bool:
    """Whether a process of the group is, those not counted that are dead and wait to be buried."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            stat = path.read_text().rpartition(")")[2].split()
            if int(stat[2]) == group and stat[0] != "Z":
                return True
    return False


def is_mentioned(path: Path) -> bool:
    """Whether a process has it in its command line."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if str(path).encode() in command.read_bytes():
                return True
    return False
