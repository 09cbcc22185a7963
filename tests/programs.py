"""What tests start: programs, of which nothing is left, processes that work together, and scripts."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import torch

from parser.commands.errors import exit_code_of
from parser.distributed.joining import join_processes
from parser.system.remote import Remote, RemoteError


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


ABSENT = "torch", "conllu", "yaml", "tensorboard", "safetensors", "matplotlib", "networkx", "transformers"
"""What an environment lacks that is not the program's. spaCy itself needs pydantic, numpy and tqdm."""


def make_foreign(folder: Path) -> dict[str, str]:
    """Make a folder as the project's is for a Python that lacks what `ABSENT` names.

    Returns the variables of processes that are started there.
    """
    folder.mkdir()
    for name in ("parser", "scripts", "stack_parser.py"):
        (folder / name).symlink_to(Path(name).resolve())
    (folder / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))\n")
    information = folder / "stack_parser.egg-info"  # as an installation with `pip install -e` leaves it
    information.mkdir()
    (information / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: stack-parser\nVersion: 0\n")
    project, lines = tomllib.loads(Path("pyproject.toml").read_text())["project"], []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))
    return {**os.environ, "PYTHONPATH": str(folder)}


SCRIPTS = Path(__file__).parent.parent / "scripts"


def script(name):
    """A script of the project as a module."""
    [path] = SCRIPTS.rglob(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Member:
    """One of several processes that work together, as torchrun starts them."""

    def __init__(self, rank, count, port):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
        os.environ |= {name: str(value) for name, value in place.items()}
        os.environ |= {"MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "test"}
        torch.set_num_threads(1)  # more would wait for each other
        self._processes = ExitStack().enter_context(join_processes(exit_code_of))

    def run(self, function, *arguments):
        return function(self._processes, *arguments)


def together(count, function, *arguments):
    """function(processes, *arguments) in that many processes: what each returns, or its RemoteError."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    with ExitStack() as stack:
        members = [stack.enter_context(Remote(Member, rank, count, port)) for rank in range(count)]
        for member in members:
            member.begin("run", function, *arguments)
        return [answer_of(member) for member in members]


def answer_of(member):
    try:
        return member.answer()
    except RemoteError as error:
        return error
