"""Parsing a corpus: only missing trees are parsed, and files get their names when they are complete."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from parser.models.column_shares import Counts
from parser.models.model_files import digest_of
from parser.parsing.corpus.files import PARTS, SETTINGS, CorpusFile, FoundFiles, earlier_folder, find_files
from parser.parsing.corpus.parts import PartOutputs, PartResult, forget_attempts
from parser.parsing.corpus.results import results
from parser.parsing.corpus.workers import Row, is_of_disk
from parser.parsing.part_parser import PartSettings
from parser.system.console import lines_of
from parser.system.files import file_lock, real_path, write_atomically
from parser.system.ray_cluster import cluster
from parser.treebank.faults import Faults

REPORT, LOCK = "report.json", "lock"
WHEN_FULL = "start again when there is room"


@dataclass
class Summary:
    """The work done so far."""

    files: int = 0
    """Number of complete files."""
    sentences: int = 0
    words: int = 0
    dropped: int = 0
    """Sentences whose enhanced dependencies were dropped."""
    filled: Counter[str] = field(default_factory=Counter)
    """See `SentenceOutput`."""
    columns: dict[str, Counts] = field(default_factory=dict)
    """The values of the columns that the model reads."""
    failures: dict[str, list[str]] = field(default_factory=dict)
    """The lines of the error message for each file that failed, by name."""
    block_seconds: list[float] = field(default_factory=list)
    """The time of a worker for each part, or for small parts that were parsed together."""
    seconds_to_complete: float = 0.0
    """The time in which this program has joined the trees of parts to files."""

    def add_file(self, parts: Sequence[PartResult]) -> None:
        self.files += 1
        for part in parts:
            self.sentences += part.sentences
            self.words += part.words
            self.dropped += part.dropped
            self.filled += part.filled
            for name, counts in part.columns.items():
                self.columns.setdefault(name, Counts()).merge(counts)


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
    with _claim(target, corpus.own) as own:
        _refuse_other_start(source, target, own, settings)
        own.rename(corpus.own)  # if the corpus has its name by now
        forget_attempts(corpus.own)
        began = time.monotonic()
        summary = Summary(failures={name: [why] for name, why in corpus.failures.items()})
        count, started = 0, 0.0
        if corpus.missing:
            with (
                cluster(address, workers, settings.threads) as count,
                closing(results(corpus.missing, settings, count)) as rows,
            ):
                first = next(rows)
                started = time.monotonic() - first["seconds"] - began
                all_rows = chain([first], rows)
                _collect(all_rows, corpus.missing, summary, settings.form is not None, progress)
        _leave_failures(corpus, summary)
        return _report(corpus, summary, count, started, time.monotonic() - began)


@contextmanager
def _claim(target: Path, own: Path) -> Iterator[Path]:
    """Lock the folder for trees; yield the program's own folder in it: an earlier one, or else `own`.

    Raises ValueError if another process holds the lock, or if there are files that are not the program's.
    """
    if os.path.lexists(target) and not target.is_dir():
        raise ValueError(f"{target}: is no folder; choose another name for the trees")
    target.mkdir(parents=True, exist_ok=True)
    earlier = earlier_folder(target)
    if not earlier:
        if any(child != own for child in target.iterdir()):
            raise ValueError(f"{target}: has files that parse-corpus has not written; choose another folder")
        own.mkdir(exist_ok=True)
    held = earlier or own
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
        own = pending.get(row["name"])
        if own is None or not own.add(row):
            continue
        del pending[row["name"]]
        began = time.monotonic()
        try:
            found = own.complete(renumbers)
        except (OSError, ValueError) as error:
            if is_of_disk(error):
                raise ValueError(f"{own.file.name}: {error}; {WHEN_FULL}") from error
            summary.failures[own.file.name] = list(lines_of(error))
        else:
            summary.add_file(found)
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
        found = [outputs.result(number) for number in range(self._count or 0)]
        there = [result for result in found if result]
        if len(there) < len(found):
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
        shutil.rmtree(corpus.own / PARTS, ignore_errors=True)
        return
    kept = {file.unfinished for file in failed}
    for folder in (corpus.own / PARTS).glob("*"):
        if str(folder) not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _refuse_other_start(source: Path, target: Path, own: Path, settings: PartSettings) -> None:
    """Raises ValueError if the folder contains trees of other files or with other options."""
    now = {
        "source": str(source),
        "model": digest_of(settings.models.paths),
        "text": settings.form,
        "precision": settings.precision,
        "options": settings.options.model_dump(mode="json"),
        "tags": settings.tags,
        "deps": settings.deps,
        **({"treebank": settings.models.treebank} if settings.models.treebank else {}),
    }
    path = own / SETTINGS
    has_trees = (own / PARTS).exists() or any(child != own for child in target.iterdir())
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
        "sentences": summary.sentences,
        "words": summary.words,
        "dropped_deps": summary.dropped,
        "filled": dict(summary.filled),
        "columns": {name: vars(counts) for name, counts in summary.columns.items()},
        "workers": workers,
        "seconds": seconds,
        "seconds_to_start": started,
        "sentences_per_second": summary.sentences / working if working else 0.0,
        "seconds_to_complete": summary.seconds_to_complete,
        "block_seconds": _spread(summary.block_seconds),
        "failures": summary.failures,
    }
    content = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    write_atomically(corpus.own / REPORT, content.encode("utf-8", "surrogateescape"))
    return report


def report_path(target: Path) -> Path:
    """The path of the report of the last start in a folder of trees."""
    return (earlier_folder(target) or target) / REPORT


def _spread(seconds: list[float]) -> dict[str, float]:
    """The median and the maximum of the seconds that workers took for blocks."""
    return {"median": median(seconds), "greatest": max(seconds)} if seconds else {}
