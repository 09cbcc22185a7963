"""Parsing a corpus on a Ray cluster: only missing trees are parsed, and complete files get their names."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from parser.parsing.corpus.files import (
    PARTS,
    SETTINGS,
    CorpusFile,
    FoundFiles,
    PartOutputs,
    PartResult,
    earlier_folder,
    find_files,
    forget_attempts,
)
from parser.parsing.corpus.workers import CorpusWorker, Row, cut_into_parts, is_of_disk
from parser.parsing.part_parser import PartSettings, what_decides
from parser.parsing.totals import Totals
from parser.system.console import lines_of
from parser.system.files import file_lock, real_path, write_atomically
from parser.system.ray_cluster import cluster, library
from parser.treebank.conllu_faults import Faults

REPORT, LOCK = "report.json", "lock"
BLOCK_BYTES = 1 << 20
"""A block is parsed by one worker. A larger part is its own block; smaller parts share a block and are parsed
together."""
MOST_LISTS, LISTS_OF_WORKER = 1000, 4
"""Number of lists into which the files are divided: in total at most, and at least for each worker. Each list
yields one or more blocks."""
CUTTERS, WORKERS_OF_CUTTER = 2, 100
"""Number of files that are cut at the same time: at least, plus one for this many workers. A cutter with its
own core can supply about twice as many workers."""
WHEN_FULL = "start again when there is room"


@dataclass
class Summary:
    """The work done so far."""

    files: int = 0
    """Number of complete files."""
    totals: Totals = field(default_factory=Totals)
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The lines of the error message for each file that failed, by name."""
    block_seconds: list[float] = field(default_factory=list)
    """The time of a worker for each part, or for small parts that were parsed together."""
    seconds_to_complete: float = 0.0
    """The time in which this program has joined the trees of parts to files."""

    def add_file(self, parts: Sequence[PartResult]) -> None:
        self.files += 1
        for part in parts:
            self.totals.add(part.totals)


def parse_corpus(
    source: Path,
    target: Path,
    settings: PartSettings,
    address: str | None = None,
    workers: int | None = None,
    progress: Callable[[Summary, int], None] = lambda summary, files: None,
) -> dict[str, Any]:
    """Parse the files below a folder into another folder; return the content of its `report.json`.

    Files whose trees are there already are left out. address, workers: see `cluster`. progress: called with
    the summary and the number of files whenever a file is finished. Raises ValueError if nothing can be done;
    errors in single files are in the report. Finished work is not lost, whatever ends the function.
    """
    source, target = real_path(source), real_path(target)  # a cluster has other working folders
    corpus = find_files(source, target, settings.form)
    with _claim(target, corpus.store) as store:
        _refuse_other_start(source, target, store, settings)
        store.rename(corpus.store)  # if the corpus has its name by now
        forget_attempts(corpus.store)
        began = time.monotonic()
        summary = Summary(failures={name: [why] for name, why in corpus.failures.items()})
        count, started = 0, 0.0
        if corpus.missing:
            with (
                cluster(address, workers, threads=1) as count,
                closing(results(corpus.missing, settings, count)) as rows,
            ):
                first = next(rows)
                started = time.monotonic() - first["seconds"] - began
                all_rows = chain([first], rows)
                _collect(all_rows, corpus.missing, summary, settings.form is not None, progress)
        _leave_failures(corpus, summary)
        return _report(corpus, summary, count, started, time.monotonic() - began)


def results(files: Sequence[CorpusFile], settings: PartSettings, workers: int) -> Generator[Row]:
    """A row for each part when a worker finishes it; see `CorpusWorker.__call__`.

    A worker that dies is replaced, and its work is repeated. Close the generator before leaving the cluster,
    which would otherwise wait forever.
    """
    ray = library()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it would also log signals
    rows: list[dict[str, Any]] = [file._asdict() for file in files]
    lists = _lists(files, workers)
    cutters = min(lists, CUTTERS + workers // WORKERS_OF_CUTTER)
    dataset = (
        ray.data.from_items(rows, override_num_blocks=lists)
        # These tasks reserve no CPU: otherwise they could wait for workers, and workers for them.
        .flat_map(
            partial(cut_into_parts, form=settings.form),
            num_cpus=0,
            compute=ray.data.TaskPoolStrategy(cutters),
        )
        .map_batches(
            CorpusWorker,
            fn_constructor_args=(settings,),
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=1,
            batch_size=None,
            batch_format="numpy",
        )
    )
    with closing(iter(dataset.iter_rows())) as rows_of_parts:
        yield from rows_of_parts


def _lists(files: Sequence[CorpusFile], workers: int) -> int:
    """The number of lists of files. Lists with less than a block each would make batches small."""
    blocks = sum(file.size for file in files) // BLOCK_BYTES
    return min(len(files), MOST_LISTS, max(blocks, LISTS_OF_WORKER * workers))


@contextmanager
def _claim(target: Path, store: Path) -> Iterator[Path]:
    """Lock the folder for trees; yield the program's own folder in it: an earlier one, or else `store`.

    Raises ValueError if another process holds the lock, or if there are files that are not the program's.
    """
    if os.path.lexists(target) and not target.is_dir():
        raise ValueError(f"{target}: is no folder; choose another name for the trees")
    target.mkdir(parents=True, exist_ok=True)
    earlier = earlier_folder(target)
    if not earlier:
        if any(child != store for child in target.iterdir()):
            raise ValueError(f"{target}: has files that parse-corpus has not written; choose another folder")
        store.mkdir(exist_ok=True)
    held = earlier or store
    with file_lock(held / LOCK, f"{target}: another process writes there"):
        yield held


def _collect(
    rows: Iterable[Row],
    files: list[CorpusFile],
    summary: Summary,
    renumbers: bool,
    progress: Callable[[Summary, int], None],
) -> None:
    """Complete each file when all of its parts are there."""
    total = len(files) + len(summary.failures)
    pending = {file.name: _Pending(file) for file in files}
    for row in rows:
        if row["seconds"]:
            summary.block_seconds.append(row["seconds"])
        if row["is_disk_full"]:
            raise ValueError(f"{row['name']}: {row['error']}; {WHEN_FULL}")
        waiting = pending.get(row["name"])
        if waiting is None or not waiting.add(row):
            continue
        del pending[row["name"]]
        began = time.monotonic()
        try:
            parts = waiting.complete(renumbers)
        except (OSError, ValueError) as error:
            if is_of_disk(error):
                raise ValueError(f"{waiting.file.name}: {error}; {WHEN_FULL}") from error
            summary.failures[waiting.file.name] = list(lines_of(error))
        else:
            summary.add_file(parts)
        summary.seconds_to_complete += time.monotonic() - began
        progress(summary, total)


class _Pending:
    """A file with missing parts."""

    def __init__(self, file: CorpusFile):
        self.file = file
        self._there: set[int] = set()
        self._count: int | None = None
        self._error = ""

    def add(self, row: Row) -> bool:
        """Record a part; return whether the file needs no further parts. A part may come twice."""
        self._there.add(row["number"])
        if row["is_last"]:
            self._count = row["number"] + 1
        self._error = self._error or row["error"]
        return bool(self._error) or len(self._there) == self._count

    def complete(self, renumbers: bool) -> list[PartResult]:
        """Join the parts of the file and give it its name. Raises ValueError if the file has faults."""
        outputs = PartOutputs.of(self.file)
        if self._error:
            raise ValueError(self._error)
        count = self._count or 0
        there = [result for number in range(count) if (result := outputs.result(number))]
        if len(there) < count:
            raise ValueError("the trees of a part have disappeared; start again")
        faults = Faults()
        for result in there:
            faults.merge(result.faults)
        faults.check(self.file.path)
        outputs.join(there, self.file.output, renumbers)
        return there


def _leave_failures(corpus: FoundFiles, summary: Summary) -> None:
    """Remove all parts except those of failed files, so that a new start has less to do."""
    failed = [file for file in corpus.missing if file.name in summary.failures]
    if not failed:
        shutil.rmtree(corpus.store / PARTS, ignore_errors=True)
        return
    kept = {file.unfinished for file in failed}
    for folder in (corpus.store / PARTS).glob("*"):
        if str(folder) not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _refuse_other_start(source: Path, target: Path, store: Path, settings: PartSettings) -> None:
    """Raises ValueError if the folder contains trees of other files or with other options."""
    now = {"source": str(source), **what_decides(settings)}
    path = store / SETTINGS
    has_trees = (store / PARTS).exists() or any(child != store for child in target.iterdir())
    if has_trees and json.loads(path.read_text(encoding="utf-8")) != now:
        raise ValueError(
            f"{target}: has trees of other files, of another model or by other options; choose another folder"
        )
    write_atomically(path, json.dumps(now).encode())


def _report(
    corpus: FoundFiles, summary: Summary, workers: int, started: float, seconds: float
) -> dict[str, Any]:
    """Write `report.json`; return its content. started: how many of `seconds` passed until a worker began."""
    working = seconds - started
    report = {
        "files": summary.files,
        "done_before": corpus.done,
        "other_files": corpus.others,
        **summary.totals.as_json(),
        "workers": workers,
        "seconds": seconds,
        "seconds_to_start": started,
        "sentences_per_second": summary.totals.sentences / working if working else 0.0,
        "seconds_to_complete": summary.seconds_to_complete,
        "block_seconds": _spread(summary.block_seconds),
        "failures": summary.failures,
    }
    content = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    write_atomically(corpus.store / REPORT, content.encode("utf-8", "surrogateescape"))
    return report


def report_path(target: Path) -> Path:
    """The path of the report of the last start in a folder of trees."""
    return (earlier_folder(target) or target) / REPORT


def _spread(seconds: list[float]) -> dict[str, float]:
    """The median and the maximum of the seconds that workers took for blocks."""
    return {"median": median(seconds), "greatest": max(seconds)} if seconds else {}
