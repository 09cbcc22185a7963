"""Joins or starts a Ray cluster. Whether one answers is checked first: Ray itself would try for minutes."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from parser.system.console import warn
from parser.system.interruption import Interrupted
from parser.system.version import to_install

TOKEN_MODE = "RAY_AUTH_MODE"
ASKS_FOR_TOKEN = f"; if `ray start` said that the cluster has token authentication, set {TOKEN_MODE}=token"
SECONDS = 5.0
"""Seconds within which the machine must answer."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The connection preface of an HTTP/2 client (RFC 9113, section 3.4), with empty settings."""
HEADER_BYTES, KIND, SETTINGS = 9, 3, 4
"""HTTP/2 frames: length of the header, index of the kind in it, and the kind of a settings frame."""
FOUND_BY_RAY = "auto", "local"
AS_PRINTED = "take the address that `ray start --head` printed, such as 10.0.0.1:6379"


def library() -> ModuleType:
    """The module `ray`. Raises ValueError, which says what to install, if it is missing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # users need not know of restarted workers
    try:
        import ray.data
    except ImportError:
        raise ValueError(f"clusters need Ray: {to_install('ray')}") from None
    return ray


@contextmanager
def cluster(address: str | None, workers: int | None, threads: int) -> Iterator[int]:
    """Join the cluster at an address, or start one on this machine; yields the number of workers.

    workers: by default, as many as there are CPUs for. threads: the threads of each worker. Raises ValueError
    if there is no such cluster, if none of its machines has that many CPUs, or if workers would find another
    module `parser` in the working folder.
    """
    ray = library()
    ours = Path(__file__).parents[1] / "__init__.py"
    for path in (Path("parser", ours.name), Path("parser.py")):
        if path.is_file() and not path.samefile(ours):
            raise ValueError(
                f"{path.absolute()}: workers of Ray would take it for this program, whose package is called "
                "parser, too; rename it, or call the command in another folder"
            )
    wanted_cpus = None if address or not workers else workers * threads
    if address:
        refuse_silent(address)
        warn(f"joining the cluster at {address}")
    try:
        with _quiet(), _own_signal_handlers():
            ray.init(
                address=address or "local",
                num_cpus=wanted_cpus,
                **({} if address else {"include_dashboard": False}),
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except SystemExit:  # raised by Ray's handler of SIGTERM
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


def refuse_silent(address: str) -> None:
    """Raises ValueError, which says what was tried, if nothing answers there that Ray could talk to."""
    wanted = address
    if address == "auto":
        wanted = os.environ.get("RAY_ADDRESS", "auto")
    if wanted in FOUND_BY_RAY:
        return
    host, _, port = wanted.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"--address {wanted}: is neither auto nor HOST:PORT; {AS_PRINTED}")
    answer = None  # with TLS, it cannot be read
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("0", "false"):
                connection.sendall(GREETING)
                with connection.makefile("rb") as file:
                    answer = file.read(HEADER_BYTES)
    except (OSError, UnicodeError) as error:  # UnicodeError for names that are too long
        reason = str(error) or "no answer"
        raise ValueError(
            f"--address {wanted}: no cluster: tried port {port} of {host} for up to {SECONDS:g} seconds: "
            f"{reason}; {AS_PRINTED}"
        ) from None
    if answer is not None and answer[KIND : KIND + 1] != bytes([SETTINGS]):
        raise ValueError(
            f"--address {wanted}: no cluster: what listens at port {port} of {host} is something else; "
            f"{AS_PRINTED}"
        )


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces by its own, which would end the program differently."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard standard error, where Ray announces that its messages are switched off."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
