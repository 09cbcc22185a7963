"""The cluster of Ray: joining or starting one, and the results of its workers."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from parser.corpus.cluster_address import refuse_silent
from parser.corpus.files import CorpusFile
from parser.corpus.workers import CorpusWorker, Row, WorkerSettings, cut_into_parts
from parser.system.console import warn
from parser.system.extras import to_install
from parser.system.interruption import Interrupted

BLOCK_BYTES = 1 << 20
"""A block is parsed by one worker. A part that is larger is a block of its own, smaller ones are parsed
together."""
MOST_LISTS, LISTS_OF_WORKER = 1000, 4
"""Into which the list of files is divided: at most, and at least for each worker. Each gives one block or
more."""
TOKEN_MODE = "RAY_AUTH_MODE"
ASKS_FOR_TOKEN = f"; if `ray start` said that the cluster has token authentication, set {TOKEN_MODE}=token"
CUTTERS, WORKERS_OF_CUTTER = 2, 100
"""Files that are cut at the same time: at least, and one more for so many workers. One that has a core gives
work to about twice as many."""


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


def results(files: Sequence[CorpusFile], settings: WorkerSettings, workers: int) -> Generator[Row]:
    """A row for each part, as the workers finish it; those of `CorpusWorker.__call__`.

    A worker that dies is replaced, and what it was doing is done again. To be closed before the cluster is
    left, which would else wait forever.
    """
    ray = library()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it would tell of a signal, too
    rows: list[dict[str, Any]] = [file._asdict() for file in files]
    lists = _lists(files, workers)
    cutters = min(lists, CUTTERS + workers // WORKERS_OF_CUTTER)
    dataset = (
        ray.data.from_items(rows, override_num_blocks=lists)
        # They use no CPU that a worker could have, else they would wait for workers, and these for them.
        .flat_map(
            partial(cut_into_parts, form=settings.form),
            num_cpus=0,
            compute=ray.data.TaskPoolStrategy(cutters),
        )
        .map_batches(
            CorpusWorker,
            fn_constructor_args=(settings,),
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=settings.threads,
            batch_size=None,
            batch_format="numpy",
        )
    )
    with closing(iter(dataset.iter_rows())) as found:
        yield from found


def _lists(files: Sequence[CorpusFile], workers: int) -> int:
    """Into how many lists the files are divided: with less than a block in each, batches would be small."""
    blocks = sum(file.size for file in files) // BLOCK_BYTES
    return min(len(files), MOST_LISTS, max(blocks, LISTS_OF_WORKER * workers))
