"""Timing a program on given batches, so that each of several programs does the same work."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--warmup", type=int, default=4, help="batches before those that are timed")
    parser.add_argument("--batches", type=int, default=16, help="batches that are timed")


def print_speed(
    run: Callable[[Any], object],
    batches: Sequence[Any],
    examples: Callable[[Any], int],
    given: argparse.Namespace,
) -> None:
    """Run the batches in order, the first ones untimed, and print examples per second.

    run: a training step. examples: returns their number in a batch. given: the arguments of `add_arguments`.
    """
    gc.collect()
    gc.freeze()  # as the harness does
    order = islice(cycle(batches), given.warmup + given.batches)
    for batch in islice(order, given.warmup):
        run(batch)
    timed = list(order)
    began = time.perf_counter()
    for batch in timed:
        run(batch)
    seconds = time.perf_counter() - began
    print(f"{sum(map(examples, timed)) / seconds:,.2f} sentences/s")
