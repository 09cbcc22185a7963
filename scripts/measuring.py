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
from parser.evaluation.statistics import median_of, ratio_of
from parser.treebank.conllu import stream_sentences

REPETITIONS = 5
"""The least number of repetitions in `least_seconds`, and the number of repetitions of large products."""
Result = TypeVar("Result")


def in_turns(work: Mapping[str, Callable[[], Result]], turns: int) -> Iterator[dict[str, Result]]:
    """Do each piece of work once per turn; yields the results of each turn by name."""
    names = list(work)
    for turn in range(turns):
        # The order alternates, so that no program always follows the same other one.
        results = {name: work[name]() for name in (names[::-1] if turn % 2 else names)}
        yield {name: results[name] for name in names}


def speeds_in_turns(
    work: Mapping[str, Callable[[], float]], turns: int, warm_up: int = 0
) -> dict[str, list[float]]:
    """Returns the speed of each program in every turn, and prints it. warm_up: extra turns at the start."""
    speeds: dict[str, list[float]] = {name: [] for name in work}
    for turn, of_turn in enumerate(in_turns(work, warm_up + turns), 1 - warm_up):
        if turn > 0:
            for name, speed in of_turn.items():
                speeds[name].append(speed)
                print(f"turn {turn}: {name}: {speed:,.0f}/s", flush=True)
    return speeds


def compare(work: Mapping[str, Callable[[], float]], turns: int, what: str, warm_up: int = 0) -> None:
    """Print the speeds of two programs in sentences per second, and the ratio of the first to the second.

    All are medians over the turns with 95 % intervals. what: name of the ratio. warm_up: extra turns first.
    """
    speeds = speeds_in_turns(work, turns, warm_up)
    for name, of_program in speeds.items():
        print(f"{name}: {median_of(of_program):,.0f} sentences/s")
    first, second = speeds.values()
    print(f"{what}: {ratio_of(first, second, interleaved=True)}")


def per_second(work: Callable[[], int], clock: Callable[[], float] = time.perf_counter) -> float:
    """The amount of work done per second. work: returns how much it did."""
    began = clock()
    done = work()
    return done / (clock() - began)


def least_seconds(run: Callable[[], object], seconds: float = 0.1) -> float:
    """The shortest time of `run`, repeated at least `REPETITIONS` times and for at least `seconds`."""
    taken: list[float] = []
    while len(taken) < REPETITIONS or sum(taken) < seconds:
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def processor_seconds(run: Callable[[], object], repetitions: int) -> float:
    """The mean processor time of `repetitions` runs, after a first run that warms the caches."""
    run()
    began = time.process_time()
    for _ in range(repetitions):
        run()
    return (time.process_time() - began) / repetitions


def large_products(size: int = 1024) -> Callable[[], float]:
    """Returns a function that measures operations per second of large products by the faster library."""
    left, right = torch.randn(2, size, size)
    kernels = [partial(kernel, left, right) for kernel in (F.linear, by_onednn)]
    return lambda: 2 * size**3 / min(processor_seconds(kernel, REPETITIONS) for kernel in kernels)


def write_sentences(treebank: str, count: int, path: Path) -> None:
    """Write `count` sentences to `path`: those of the treebank, repeated as often as needed."""
    with path.open("w", encoding="utf-8") as file:
        texts = ("".join(sentence.lines) for sentence in stream_sentences(treebank, tree=False))
        for text in islice(cycle(texts), count):
            file.write(text.rstrip("\n") + "\n\n")


def parsed_per_second(model: Path, text: Path, *options: str) -> float:
    """Sentences per second that `stack-parser parse` prints: includes reading and writing, not loading."""
    command = [sys.executable, "-m", "parser", "parse", str(model), str(text), "-o", "/dev/null"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    speed = re.search(r"([\d,]+) sentences/s", done.stderr)
    assert speed, done.stderr
    return float(speed[1].replace(",", ""))
