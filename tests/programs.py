"""What tests start: programs that leave nothing behind, processes that work together, and scripts."""

from __future__ import annotations

import importlib.util
import os
import resource
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
from parser.system.remote import Remote, RemoteError
from parser.training.processes import join_processes


@contextmanager
def running(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen]:
    """A program in its own process group, which is ended after the block."""
    with subprocess.Popen(command, start_new_session=True, **how) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Inside the block, this process can open no further files and connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Wait for the condition, however busy the machine is. Fails if the program ends first."""
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode}"
        time.sleep(0.05)


def children_of(process: subprocess.Popen) -> list[psutil.Process]:
    """All descendants of the process."""
    return psutil.Process(process.pid).children(recursive=True)


def temporary(folder: Path) -> dict[str, str]:
    """An environment with this new folder for temporary files, except for those of PyTorch's compiler."""
    folder.mkdir()
    return {**os.environ, "TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": f"{folder}-of-compiler"}


def is_running(group: int) -> bool:
    """Whether any process of the group is running, not counting zombies."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            stat = path.read_text().rpartition(")")[2].split()
            if int(stat[2]) == group and stat[0] != "Z":
                return True
    return False


def is_mentioned(path: Path) -> bool:
    """Whether the command line of some process contains the path."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if str(path).encode() in command.read_bytes():
                return True
    return False


ABSENT = ("torch", "conllu", "yaml", "tensorboard", "safetensors", "matplotlib", "networkx", "scipy")
ABSENT += ("transformers",)
"""What an environment other than the program's lacks. spaCy itself needs pydantic, numpy and tqdm."""


def make_foreign(folder: Path) -> dict[str, str]:
    """Make a folder that looks like the project's to a Python without the packages in `ABSENT`.

    Returns the environment variables for processes that use it.
    """
    folder.mkdir()
    for name in ("parser", "scripts", "stack_parser.py"):
        (folder / name).symlink_to(Path(name).resolve())
    (folder / "sitecustomize.py").write_text(f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))\n")
    information = folder / "stack_parser.egg-info"  # as `pip install -e` leaves it
    information.mkdir()
    (information / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: stack-parser\nVersion: 0\n")
    project, lines = tomllib.loads(Path("pyproject.toml").read_text())["project"], []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines))
    return {**os.environ, "PYTHONPATH": str(folder)}


def git(folder, *command):
    """The output of git."""
    settings = {"user.name": "Some", "user.email": "some@example.org", "init.defaultBranch": "master"}
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = ["git", "-C", str(folder), *options, *command]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


SCRIPTS = Path(__file__).parent.parent / "scripts"


def script(name):
    """A script of the project, imported as a module."""
    [path] = SCRIPTS.rglob(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Member:
    """One of several processes that work together, as started by torchrun."""

    def __init__(self, rank, count, port):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
        os.environ |= {name: str(value) for name, value in place.items()}
        os.environ |= {"MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "test"}
        torch.set_num_threads(1)  # more would wait for each other
        self._processes = ExitStack().enter_context(join_processes(exit_code_of))

    def run(self, function, *arguments):
        return function(self._processes, *arguments)


def together(count, function, *arguments):
    """Call function(processes, *arguments) in `count` processes: what each returns, or its RemoteError."""
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
