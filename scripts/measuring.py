"""Measuring things side by side: in turns, so that a machine that gets slower slows down all of them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F

from parser.batching.functional import by_onednn
from parser.speed.measuring.statistics import median_of, ratio_of
from parser.treebank.conllu import stream_sentences

REPETITIONS = 5
"""Of what is timed by `least_seconds`, at least, and of large products."""
Result = TypeVar("Result")


def in_turns(work: Mapping[str, Callable[[], Result]], turns: int) -> Iterator[dict[str, Result]]:
    """Do everything once in each turn; yields the results of a turn by their names."""
    names = list(work)
    for turn in range(turns):
        # Who goes first changes, so that none always follows another.
        found = {name: work[name]() for name in (names[::-1] if turn % 2 else names)}
        yield {name: found[name] for name in names}


def speeds_in_turns(
    work: Mapping[str, Callable[[], float]], turns: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """The speed of each in every turn; prints it as well. warm_up: turns before, which do not count."""
    speeds: dict[str, list[float]] = {name: [] for name in work}
    for turn, found in enumerate(in_turns(work, warm_up + turns), 1 - warm_up):
        if turn > 0:
            for name, speed in found.items():
                speeds[name].append(speed)
                print(f"turn {turn}: {name}: {speed:,.0f}/s", flush=True)
    return speeds


def compare(work: Mapping[str, Callable[[], float]], turns: int, what: str, warm_up: int = 0) -> None:
    """Print the speeds of two in sentences per second, and that of the first over that of the second.

    All are medians over the turns with 95 % intervals. what: how the ratio is called. warm_up: as above.
    """
    speeds = speeds_in_turns(work, turns, warm_up)
    for name, own in speeds.items():
        print(f"{name}: {median_of(own):,.0f} sentences/s")
    first, second = speeds.values()
    print(f"{what}: {ratio_of(first, second, interleaved=True)}")


def per_second(work: Callable[[], int], clock: Callable[[], float] = time.perf_counter) -> float:
    """work: returns how much it did."""
    began = clock()
    done = work()
    return done / (clock() - began)


def least_seconds(run: Callable[[], object], seconds: float = 0.1) -> float:
    """The fewest seconds in which it ran, of at least `REPETITIONS` times and so many seconds."""
    found: list[float] = []
    while len(found) < REPETITIONS or sum(found) < seconds:
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def processor_seconds(run: Callable[[], object], repetitions: int) -> float:
    """The mean of so many runs after a first one, which warms the caches."""
    run()
    began = time.process_time()
    for _ in range(repetitions):
        run()
    return (time.process_time() - began) / repetitions


def large_products(size: int = 1024) -> Callable[[], float]:
    """What measures operations per second of large square products, by the faster of both libraries."""
    left, right = torch.randn(2, size, size)
    kernels = [partial(kernel, left, right) for kernel in (F.linear, by_onednn)]
    return lambda: 2 * size**3 / min(processor_seconds(kernel, REPETITIONS) for kernel in kernels)


def write_sentences(treebank: str, count: int, path: Path) -> None:
    """So many sentences, those of the treebank again and again."""
    with path.open("w", encoding="utf-8") as file:
        texts = ("".join(sentence.lines) for sentence in stream_sentences(treebank, tree=False))
        for text in islice(cycle(texts), count):
            file.write(text.rstrip("\n") + "\n\n")


def parsed_per_second(model: Path, text: Path, *options: str) -> float:
    """Sentences, as `stack-parser parse` prints: reading and writing included, loading the model not."""
    command = [sys.executable, "-m", "parser", "parse", str(model), str(text), "-o", "/dev/null"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    found = re.search(r"([\d,]+) sentences/s", done.stderr)
    assert found, done.stderr
    return float(found[1].replace(",", ""))
