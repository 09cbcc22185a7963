"""The same work for several compared programs: a problem to train on, and the timing of its batches.

A problem is a folder of arrays, `NAME.npy`, which programs in other languages can read, too: the batches, the
weights that all programs start with, and two losses. Sequences of different lengths, such as the words of
each sentence, are two arrays: `NAME.npy`, the concatenated numbers, and `NAME.lengths.npy`. Weights are
`weights.NAME.npy`, by their names in our network.

The programs have separate environments, so this module needs only NumPy.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TOLERANCES = 1e-4, 1e-3
"""Relative differences of the loss before and after a step, each a sum of thousands of float32 numbers."""


class Problem:
    def __init__(self, folder: Path):
        self.folder = folder

    def array(self, name: str) -> Array:
        """Read an array. Raises SystemExit if there is no such array."""
        path = self.folder / f"{name}.npy"
        if not path.is_file():
            raise SystemExit(f"{path}: no such file; write the problem with write_problem.py")
        content: Array = np.load(path)
        return content

    def number(self, name: str) -> int:
        return int(self.array(name))

    def ragged(self, name: str) -> list[Array]:
        """The numbers of each example."""
        ends = self.array(f"{name}.lengths").cumsum()
        return np.split(self.array(name), ends[:-1])

    def batches(self, examples: Sequence[Any]) -> list[Sequence[Any]]:
        size = self.number("batch_size")
        return [examples[start : start + size] for start in range(0, len(examples), size)]

    def weights(self) -> dict[str, Array]:
        prefix = "weights."
        paths = sorted(self.folder.glob(f"{prefix}*.npy"))
        return {path.stem.removeprefix(prefix): np.load(path) for path in paths}

    def check(self, loss: Callable[[], float], step: Callable[[], object]) -> None:
        """Take one step on the first batch. loss: returns the current loss of that batch.

        Raises SystemExit if the loss before or after the step is not the one that our program computes.
        """
        before = loss()
        step()
        losses = before, loss()
        for when, computed, expected, tolerance in zip(
            ("before", "after"), losses, self.array("losses").tolist(), TOLERANCES, strict=True
        ):
            print(f"loss of the first batch {when} a step: {computed:.6g}, and {expected:.6g} by our program")
            if not abs(computed - expected) <= tolerance * abs(expected):
                raise SystemExit("the losses differ")


def write(
    folder: Path,
    arrays: Mapping[str, Array],
    ragged: Mapping[str, Sequence[Sequence[float] | Array]],
    weights: Mapping[str, Array],
) -> None:
    """Write a problem. ragged: the numbers of each example, whose lengths differ."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, numbers_of in ragged.items():
        lengths = np.array(list(map(len, numbers_of)), np.int32)
        numbers = np.concatenate([np.asarray(each, np.float64) for each in numbers_of])
        whole = np.array_equal(numbers, np.floor(numbers))
        _save(folder, name, numbers.astype(np.int32 if whole else np.float64))
        _save(folder, f"{name}.lengths", lengths)
    for name, array in arrays.items():
        _save(folder, name, array)
    for name, weight in weights.items():
        _save(folder, f"weights.{name}", weight)


def _save(folder: Path, name: str, array: Array) -> None:
    np.save(folder / f"{name}.npy", np.asarray(array, order="C"))


def argument_parser(description: str) -> argparse.ArgumentParser:
    """The arguments of a program that trains on a problem."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problem", type=Path, help="a folder by write_problem.py")
    add_arguments(parser)
    return parser


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
