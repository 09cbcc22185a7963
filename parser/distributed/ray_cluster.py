"""A cluster of Ray: joining or starting one."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from parser.distributed.cluster_address import refuse_silent
from parser.system.console import warn
from parser.system.extras import to_install
from parser.system.interruption import Interrupted

TOKEN_MODE = "RAY_AUTH_MODE"
ASKS_FOR_TOKEN = f"; if `ray start` said that the cluster has token authentication, set {TOKEN_MODE}=token"


def library() -> ModuleType:
    """Ray. Raises ValueError, which says what to install, if it is not there."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # a restarted worker is no message for users
    try:
        import ray.data
    except ImportError:
        raise ValueError(f"clusters need Ray: {to_install('ray')}") from None
    return ray


@contextmanager
def cluster(address: str | None, workers: int | None, threads: int) -> Iterator[int]:
    """Join the cluster with that address, or start one on this machine; yields the number of workers.

    workers: as many as there are CPUs for, unless given. threads: of a worker. Raises ValueError if
    there is no such cluster, if none of its machines has so many CPUs, and for a working folder in which
    workers would find another `parser`.
    """
    ray = library()
    _refuse_other_parser()
    own_cpus = None if address or not workers else workers * threads
    if address:
        refuse_silent(address)
        warn(f"joining the cluster at {address}")
    try:
        with _quiet(), _own_signal_handlers():
            ray.init(
                address=address or "local",
                num_cpus=own_cpus,
                **({} if address else {"include_dashboard": False}),
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except SystemExit:  # from Ray's handler of SIGTERM
        raise Interrupted(signal.SIGTERM) from None
    except (ConnectionError, RuntimeError) as error:
        told = str(error).partition("\n")[0]
        hint = ASKS_FOR_TOKEN if address and os.environ.get(TOKEN_MODE) != "token" else ""
        where = f"--address {address}" if address else "a cluster on this machine could not be started"
        raise ValueError(f"{where}: {told}{hint}") from None
    try:
        cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
        room = sum(count // threads for count in cpus)
        if not room:
            raise ValueError(f"{threads} threads: no machine has so many CPUs, but {max(cpus)} at most")
        yield workers or room
    finally:
        ray.shutdown()


def _refuse_other_parser() -> None:
    """Workers of Ray look for modules in the working folder first."""
    ours = Path(__file__).parents[1] / "__init__.py"
    for path in (Path("parser", ours.name), Path("parser.py")):
        if path.is_file() and not path.samefile(ours):
            raise ValueError(
                f"{path.absolute()}: workers of Ray would take it for this program, whose package is called "
                "parser, too; rename it, or call the command in another folder"
            )


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Restores the handlers that Ray replaces by its own, which end the program in their own way."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Discards what is written to standard error: Ray tells there that its messages are switched off."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
