"""Measure the cost of parsing a corpus with Ray workers, beyond the parsing itself.

python scripts/studies/scale/measure_corpus.py MODEL FILE.conllu ROWS.jsonl [--sentences 100000]

The sentences of a treebank are repeated, and written to files of different sizes; last to one file, which is
parsed in parts. Small files are parsed together, in blocks. Each file size and number of workers gives a row:
the seconds of each block, the share of time that workers were busy, the resources used by the driver, Ray's
own processes and its object store, and the memory of each worker over time. One row is about finding many
files, one about cutting a file into parts. `scripts/studies/scale/plan_corpus.py` reads the rows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import write_sentences

from parser.models.loading import ModelChoice
from parser.parsing.corpus.files import find_files
from parser.parsing.corpus.run import Summary, parse_corpus
from parser.parsing.corpus.workers import cut_into_parts
from parser.parsing.options import TREE_ALONE
from parser.parsing.part_parser import PartSettings
from parser.system.files import refuse_to_overwrite
from parser.system.provenance import append_stamped
from parser.treebank.conllu import stream_sentences

KIB = 1 << 10
FILE_SIZES = 16 * KIB, 128 * KIB, 2000 * KIB, 1 << 40
"""Bytes of a file: the third is a little less than a part (`parser.treebank.conllu.PART_BYTES`), the last is
larger than all sentences."""
WORKERS = 1, 2
FOUND_FILES, FILES_OF_FOLDER = 100_000, 1000
SECONDS_BETWEEN_SAMPLES = 2.0
OBJECT_STORE = "/dev/shm"
"""The folder in which Ray keeps objects that processes pass to each other."""
WORKER, SERVERS = "ray::MapWorker", ("raylet", "gcs_server")
"""The start of the command lines of Ray's workers, and the names of Ray's own processes."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("treebank", help="its sentences are repeated")
    options.add_argument("rows", type=Path, help="JSON Lines file to which the rows are appended")
    options.add_argument("--sentences", type=int, default=100_000)
    given = options.parse_args()
    refuse_to_overwrite(given.rows, [given.model, given.treebank])

    def keep(row: dict[str, Any]) -> None:
        append_stamped(given.rows, row)
        print({name: value for name, value in row.items() if not isinstance(value, list)}, flush=True)

    keep({"measured": "finding", **found(FOUND_FILES)})
    keep({"measured": "cutting", **cutting(given.treebank, given.sentences)})
    settings = PartSettings(ModelChoice((given.model.resolve(),)), "auto", 256, TREE_ALONE, "missing", "drop")
    for size in FILE_SIZES:
        for workers in WORKERS:
            with tempfile.TemporaryDirectory() as folder:
                write_files(given.treebank, given.sentences, size, Path(folder, "in"))
                row = parsed(Path(folder), settings, workers)
            keep({"measured": "parsing", "file_bytes": size, "workers": workers, **row})


def found(count: int) -> dict[str, float]:
    """The time to find `count` files that are to be parsed, and the memory of their list."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in")
        for number in range(count):
            path = source / str(number // FILES_OF_FOLDER) / f"{number}.conllu"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        before, began = psutil.Process().memory_info().rss, time.perf_counter()
        files = find_files(source, Path(folder, "out"), None).missing
        seconds = time.perf_counter() - began
        memory = psutil.Process().memory_info().rss - before
        return {"files": len(files), "seconds": seconds, "memory": memory}


def cutting(treebank: str, sentences: int) -> dict[str, float]:
    """The time to read a file and cut it into parts, without passing the parts on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.conllu")
        write_sentences(treebank, sentences, path)
        [file] = find_files(Path(folder), Path(folder, "out"), None).missing
        began = time.perf_counter()
        parts = sum(1 for _ in cut_into_parts(file._asdict(), None))
        return {"bytes": path.stat().st_size, "parts": parts, "seconds": time.perf_counter() - began}


def write_files(treebank: str, count: int, size: int, folder: Path) -> None:
    """Write `count` sentences to files of about `size` bytes each."""
    folder.mkdir()
    sentences = stream_sentences(treebank, tree=False)
    texts = ["".join(sentence.lines).rstrip("\n") + "\n\n" for sentence in sentences]
    for number, content in enumerate(_contents(islice(cycle(texts), count), size)):
        (folder / f"{number}.conllu").write_text(content, encoding="utf-8")


def _contents(texts: Iterable[str], size: int) -> Iterator[str]:
    content, used = [], 0
    for text in texts:
        content.append(text)
        used += len(text.encode())
        if used >= size:
            yield "".join(content)
            content, used = [], 0
    if content:
        yield "".join(content)


def parsed(folder: Path, settings: PartSettings, workers: int) -> dict[str, Any]:
    """The time and memory needed to parse the files in `folder`/in. Memory is in bytes."""
    source, target = folder / "in", folder / "out"
    summaries: list[Summary] = []

    def keep(summary: Summary, files: int) -> None:
        summaries.append(summary)

    before = time.process_time()
    with sampled() as samples:
        report = parse_corpus(source, target, settings, workers=workers, progress=keep)
    driver_cpu = time.process_time() - before
    assert not report["failures"], report["failures"]
    block_seconds = summaries[-1].block_seconds
    seconds = report["seconds"] - report["seconds_to_start"]
    return {
        "files": report["files"],
        "sentences": report["sentences"],
        "bytes_in": _bytes_below(source),
        "bytes_out": _bytes_below(target),
        "seconds_to_start": report["seconds_to_start"],
        "seconds": seconds,
        "busy_share": sum(block_seconds) / (workers * seconds),
        "driver_cpu_seconds": driver_cpu,
        "ray_cpu_seconds": max(sample.servers_cpu for sample in samples),
        "driver_memory": max(sample.driver for sample in samples),
        "object_store_memory": max(sample.object_store for sample in samples),
        "worker_memory": [sample.workers for sample in samples],
        "seconds_to_complete": report["seconds_to_complete"],
        "block_seconds": [round(each, 4) for each in block_seconds],
    }


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.conllu"))


class Sample(NamedTuple):
    """Resident memory in bytes, at one moment."""

    workers: list[int]
    """The memory of each worker, without shared memory."""
    driver: int
    object_store: int
    servers_cpu: float
    """Processor time of Ray's own processes since their start, in seconds."""


@contextmanager
def sampled() -> Iterator[list[Sample]]:
    """Take samples of this process and its descendants until the block ends; yields their list."""
    samples: list[Sample] = []
    ended = threading.Event()

    def take() -> None:
        while not ended.wait(SECONDS_BETWEEN_SAMPLES):
            with suppress(psutil.NoSuchProcess):  # a process has just exited
                samples.append(_sample())

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _sample() -> Sample:
    this = psutil.Process()
    below = this.children(recursive=True)
    servers = [process for process in below if process.name() in SERVERS]
    workers = [process.memory_info() for process in below if " ".join(process.cmdline()).startswith(WORKER)]
    times = [process.cpu_times() for process in servers]
    return Sample(
        [memory.rss - memory.shared for memory in workers],
        this.memory_info().rss,
        shutil.disk_usage(OBJECT_STORE).used,
        sum(each.user + each.system for each in times),
    )


if __name__ == "__main__":
    main()
