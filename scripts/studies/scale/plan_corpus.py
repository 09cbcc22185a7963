"""Predict how long a corpus takes on many workers, from the formulas of docs/scale.md and measurements.

python scripts/studies/scale/plan_corpus.py ROWS.jsonl [--sentences 1000000000] [--workers 16 256 1000]

ROWS.jsonl is written by `scripts/studies/scale/measure_corpus.py`. The simulation assigns parts to workers
like Ray, each to the next free worker. Some workers are slow, and workers die now and then; their unfinished
parts are done again. A part takes one of the measured times.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

PER_HOUR = 1 / 3600
MEGABYTE, GIGABYTE = 1e6, 1e9
THOUSAND, MILLION = 1000, 1_000_000


class Supposed(NamedTuple):
    """The assumptions of a simulation about the workers."""

    slow_share: float = 0.0
    slowdown: float = 1.0
    """The factor by which a slow worker takes longer."""
    deaths_per_second: float = 0.0
    """Deaths of one worker per second."""
    seconds_to_restart: float = 10.0


SUPPOSITIONS = {
    "all alike, none dies": Supposed(),
    "one in a hundred, but at least one, takes ten times as long": Supposed(slow_share=0.01, slowdown=10.0),
    "each dies once a day": Supposed(deaths_per_second=PER_HOUR / 24),
    "each dies once an hour": Supposed(deaths_per_second=PER_HOUR),
    "each dies once in five minutes": Supposed(deaths_per_second=12 * PER_HOUR),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("rows", type=Path)
    options.add_argument("--sentences", type=int, default=1_000_000_000)
    options.add_argument("--workers", type=int, nargs="+", default=[16, 256, 1000])
    given = options.parse_args()
    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]
    runs = [Measured.of(row) for row in rows if row["measured"] == "parsing"]
    finding, cutting = (
        next(row for row in rows if row["measured"] == kind) for kind in ("finding", "cutting")
    )
    of_most = [run for run in runs if run.workers == max(each.workers for each in runs)]
    many_files, one_file = (best(of_most, key=lambda run: run.files) for best in (max, min))
    _print_table(COLUMNS, [run.cells() for run in runs])
    _print_table(("", "one", f"{THOUSAND:,} or {MILLION:,}"), _needs(many_files, one_file, finding, cutting))
    _print_table(
        (f"seconds for {given.sentences:,} sentences", *(f"{count:,} workers" for count in given.workers)),
        list(_plans(one_file, given.sentences, given.workers)),
    )


def _print_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(f"| {' | '.join(header)} |".replace("|  |", "| |"))
    print("|" + "---|" * len(header))
    for cells in lines:
        print(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    print()


class Measured(NamedTuple):
    """Measurements of parsing by workers, with files of one size."""

    workers: int
    files: int
    sentences: int
    block_seconds: Sequence[float]
    """Seconds of each block that a worker parsed as a whole: a part of a file, or several small files."""
    busy_share: float
    """The share of the workers' time in which they were busy."""
    seconds_to_start: float
    driver_cpu_seconds: float
    """Processor time of the driver, which starts the workers and collects their results."""
    seconds_to_complete: float
    """Seconds in which the driver made files from the trees of their parts, or waited for the disk."""
    bytes_in: int
    bytes_out: int

    @classmethod
    def of(cls, row: dict[str, Any]) -> Measured:
        return cls(*(row[name] for name in cls._fields))

    @property
    def sentences_of_block(self) -> float:
        return self.sentences / len(self.block_seconds)

    @property
    def busy_seconds(self) -> float:
        """The busy seconds of all workers together."""
        return sum(self.block_seconds)

    def cells(self) -> list[str]:
        return [
            str(self.workers),
            f"{self.files:,}",
            f"{self.sentences_of_block:,.0f}",
            f"{median(self.block_seconds):.2f}",
            f"{max(self.block_seconds):.2f}",
            f"{self.sentences / self.busy_seconds:,.0f}",
            f"{self.busy_share:.2f}",
            f"{self.seconds_to_start:.1f}",
        ]


COLUMNS = (
    *("workers", "files", "sentences in a block", "its seconds, median", "greatest"),
    *("sentences/s of a busy worker", "share of time it is busy", "seconds to start"),
)
"""The headers of `Measured.cells`."""


def _needs(
    many_files: Measured, one_file: Measured, finding: dict[str, Any], cutting: dict[str, Any]
) -> list[tuple[str, str, str]]:
    """The needs of one worker or file, and of a thousand or a million."""
    taken_in = one_file.bytes_in / one_file.busy_seconds
    written = one_file.bytes_out / one_file.busy_seconds
    completed = many_files.seconds_to_complete / many_files.files
    computed = cost_of_file(many_files, one_file, "driver_cpu_seconds")
    joined = one_file.bytes_out / one_file.seconds_to_complete
    cut = cutting["bytes"] / cutting["seconds"]
    seconds, memory = (finding[what] / finding["files"] for what in ("seconds", "memory"))
    return [
        (
            "a worker reads and writes",
            f"{taken_in / MEGABYTE:.1f} and {written / MEGABYTE:.1f} MB/s",
            f"{THOUSAND * taken_in / GIGABYTE:.1f} and {THOUSAND * written / GIGABYTE:.1f} GB/s",
        ),
        (
            "the driver gives a small file its name",
            f"{1e3 * completed:.1f} ms",
            f"{THOUSAND * completed:.1f} s",
        ),
        ("all that it computes for a small file", f"{1e3 * computed:.1f} ms", f"{THOUSAND * computed:.1f} s"),
        ("it joins the parts of a large file", f"{joined / MEGABYTE:,.0f} MB/s", ""),
        ("workers with large files that it serves", f"{joined / written:,.0f}", ""),
        ("files are cut into parts", f"{cut / MEGABYTE:,.0f} MB/s", ""),
        ("workers that a process that cuts serves", f"{cut / taken_in:,.0f}", ""),
        ("seconds to find a file", f"{seconds:.6f}", f"{MILLION * seconds:.0f}"),
        ("memory of a file in the list", f"{memory:,.0f} bytes", f"{MILLION * memory / MEGABYTE:,.0f} MB"),
    ]


def cost_of_file(many: Measured, few: Measured, what: str) -> float:
    """Seconds per additional file, from two runs with the same sentences in different numbers of files."""
    more: float = getattr(many, what) - getattr(few, what)
    return more / (many.files - few.files)


def _plans(run: Measured, sentences: int, workers: Sequence[int]) -> Iterator[list[str]]:
    """Lines of predicted seconds: by the formula, and by simulations of busy workers."""
    blocks = math.ceil(sentences / run.sentences_of_block)
    work = blocks * mean(run.block_seconds)
    yield ["by the formula", *(f"{run.seconds_to_start + work / (n * run.busy_share):,.0f}" for n in workers)]
    for name, supposed in SUPPOSITIONS.items():
        taken = [simulated(run.block_seconds, blocks, count, supposed) for count in workers]
        yield [name, *(f"{run.seconds_to_start + seconds / run.busy_share:,.0f}" for seconds in taken)]


def simulated(
    block_seconds: Sequence[float], blocks: int, workers: int, supposed: Supposed, seed: int = 1
) -> float:
    """Seconds until the last block is done. block_seconds: on workers that are not slow; a block draws one.

    As in Ray Data, each worker has a waiting block in addition to the one that it works on.
    """
    times = random.Random(seed).choices(block_seconds, k=blocks)
    lives = random.Random(seed)
    slow = math.ceil(workers * supposed.slow_share)
    ready = list(range(blocks))[::-1]
    known_lost: list[tuple[float, int]] = []  # blocks of dead workers, with the times at which this is known
    free = [(0.0, worker) for worker in range(workers)]  # when each worker can start a block
    idle: list[tuple[float, int]] = []
    waiting = [ready.pop() if ready else None for _ in free]
    left, end = blocks, 0.0
    while left:
        start, worker = heapq.heappop(free)
        block, waiting[worker] = waiting[worker], ready.pop() if ready else None
        if block is None:
            if not known_lost:
                idle.append((start, worker))
                continue
            when, block = heapq.heappop(known_lost)
            start = max(start, when)
        seconds = times[block] * (supposed.slowdown if worker < slow else 1.0)
        rate = supposed.deaths_per_second
        alive = lives.expovariate(rate) if rate else math.inf
        if alive < seconds:
            died = start + alive
            for lost in (block, waiting[worker]):
                if lost is not None:
                    heapq.heappush(known_lost, (died, lost))
            waiting[worker] = None
            heapq.heappush(free, (died + supposed.seconds_to_restart, worker))
            while idle:
                since, other = idle.pop()
                heapq.heappush(free, (max(since, died), other))
        else:
            left -= 1
            end = max(end, start + seconds)
            heapq.heappush(free, (start + seconds, worker))
    return end


if __name__ == "__main__":
    main()
