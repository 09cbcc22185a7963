"""How long a corpus takes on many workers, by the formulas of docs/scale.md and what has been measured.

python scripts/plan_corpus.py ROWS.jsonl [--sentences 1000000000] [--workers 16 256 1000]

ROWS.jsonl is a file of `scripts/measure_corpus.py`. The simulation deals parts out to workers as Ray does,
each to the next worker that is free. Some workers are slow, and workers die now and then; what they had begun
is done again. A part takes one of the measured times.
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
    """What a simulation supposes of the workers."""

    slow_share: float = 0.0
    slowdown: float = 1.0
    """How many times longer a slow worker takes."""
    deaths_per_second: float = 0.0
    """Of one worker."""
    seconds_to_restart: float = 10.0


SUPPOSITIONS = {
    "all alike, none dies": Supposed(),
    "one in a hundred takes ten times as long": Supposed(slow_share=0.01, slowdown=10.0),
    "each dies once a day": Supposed(deaths_per_second=PER_HOUR / 24),
    "each dies once an hour": Supposed(deaths_per_second=PER_HOUR),
    "each dies once in five minutes": Supposed(deaths_per_second=12 * PER_HOUR),
}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    smallest, largest = (best(of_most, key=lambda run: run.sentences) for best in (min, max))
    _print_table(COLUMNS, [run.cells() for run in runs])
    _print_table(("", "one", f"{THOUSAND:,} or {MILLION:,}"), _needs(smallest, largest, finding, cutting))
    _print_table(
        (f"seconds for {given.sentences:,} sentences", *(f"{count:,} workers" for count in given.workers)),
        list(_plans(largest, given.sentences, given.workers)),
    )


def _print_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """In Markdown."""
    for cells in (header, ["---"] * len(header), *lines):
        print(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    print()


class Measured(NamedTuple):
    """Parsing by workers in parts of one size. What has no other unit is of one part."""

    workers: int
    parts: int
    sentences: float
    part_seconds: Sequence[float]
    """Of each part."""
    busy_share: float
    """Of the workers' time."""
    seconds_to_start: float
    """Of the whole run."""
    driver_seconds: float
    """Of computing, in the whole run, by the program that starts the workers and collects their results."""
    ray_seconds: float
    """The same by Ray's own processes."""
    bytes_in: float
    bytes_out: float

    @classmethod
    def of(cls, row: dict[str, Any]) -> Measured:
        parts = len(row["part_seconds"])
        return cls(
            workers=row["workers"],
            parts=parts,
            sentences=row["sentences"] / parts,
            part_seconds=row["part_seconds"],
            busy_share=row["busy_share"],
            seconds_to_start=row["seconds_to_start"],
            driver_seconds=row["driver_cpu_seconds"],
            ray_seconds=row["ray_cpu_seconds"],
            bytes_in=row["bytes_in"] / parts,
            bytes_out=row["bytes_out"] / parts,
        )

    def cells(self) -> list[str]:
        return [
            str(self.workers),
            f"{self.sentences:,.0f}",
            f"{median(self.part_seconds):.3f}",
            f"{max(self.part_seconds):.3f}",
            f"{self.sentences / mean(self.part_seconds):,.0f}",
            f"{self.busy_share:.2f}",
            f"{self.seconds_to_start:.1f}",
        ]


COLUMNS = (
    *("workers", "sentences in a part", "its seconds, median", "greatest", "sentences/s of a busy worker"),
    *("share of time it is busy", "seconds to start"),
)
"""Of `Measured.cells`."""


def _needs(
    smallest: Measured, largest: Measured, finding: dict[str, Any], cutting: dict[str, Any]
) -> list[tuple[str, str, str]]:
    """What one worker or file needs, and a thousand or a million."""
    seconds = mean(largest.part_seconds)
    read, written = largest.bytes_in / seconds, largest.bytes_out / seconds
    driver = cost_of_part(smallest, largest, "driver_seconds")
    servers = cost_of_part(smallest, largest, "ray_seconds")
    cut = cutting["bytes"] / cutting["seconds"]
    found, memory = (finding[what] / finding["files"] for what in ("seconds", "memory"))
    return [
        (
            "a worker reads and writes",
            f"{read / MEGABYTE:.1f} and {written / MEGABYTE:.1f} MB/s",
            f"{THOUSAND * read / GIGABYTE:.1f} and {THOUSAND * written / GIGABYTE:.1f} GB/s",
        ),
        (
            "a file of one part takes of the driver, and of Ray's own processes",
            f"{1e3 * driver:.1f} and {1e3 * servers:.2f} ms",
            f"{THOUSAND * driver:.1f} and {THOUSAND * servers:.2f} s",
        ),
        ("workers that a driver serves", f"{seconds / driver:,.0f}", ""),
        ("bytes that are cut", f"{cut / MEGABYTE:,.0f} MB/s", ""),
        ("workers that a process that cuts serves", f"{cut / read:,.0f}", ""),
        ("seconds to find a file", f"{found:.6f}", f"{MILLION * found:.0f}"),
        ("memory of a file in the list", f"{memory:,.0f} bytes", f"{MILLION * memory / MEGABYTE:,.0f} MB"),
    ]


def _plans(run: Measured, sentences: int, workers: Sequence[int]) -> Iterator[list[str]]:
    """Seconds by the formula, and by simulations."""
    parts = math.ceil(sentences / run.sentences)
    work = parts * mean(run.part_seconds)
    formula = [run.seconds_to_start + work / (count * run.busy_share) for count in workers]
    yield ["by the formula", *(f"{seconds:,.0f}" for seconds in formula)]
    for name, supposed in SUPPOSITIONS.items():
        found = [simulated(run.part_seconds, parts, count, supposed) for count in workers]
        yield [name, *(f"{seconds:,.0f}" for seconds in found)]


def cost_of_part(smaller: Measured, larger: Measured, what: str) -> float:
    """Seconds for one more part, from two runs with the same sentences in different numbers of parts."""
    more: float = getattr(smaller, what) - getattr(larger, what)
    return more / (smaller.parts - larger.parts)


def simulated(
    part_seconds: Sequence[float], parts: int, workers: int, supposed: Supposed, seed: int = 1
) -> float:
    """Seconds until the last part is done. part_seconds: of workers that are not slow; a part draws one."""
    draw = random.Random(seed)
    slow = round(workers * supposed.slow_share)
    free = [(0.0, number) for number in range(workers)]  # when each worker is free
    begun_again: list[float] = []  # for each part whose worker has died: when that is known
    fresh, end = parts, 0.0
    while fresh or begun_again:
        start, worker = heapq.heappop(free)
        if fresh:
            fresh -= 1
        else:
            start = max(start, heapq.heappop(begun_again))
        seconds = draw.choice(part_seconds) * (supposed.slowdown if worker < slow else 1.0)
        rate = supposed.deaths_per_second
        alive = draw.expovariate(rate) if rate else math.inf
        if alive < seconds:
            heapq.heappush(begun_again, start + alive)
            heapq.heappush(free, (start + alive + supposed.seconds_to_restart, worker))
        else:
            end = max(end, start + seconds)
            heapq.heappush(free, (start + seconds, worker))
    return end


if __name__ == "__main__":
    main()
