"""Measures the time of steps and of their phases, and the speed of the machine's large matrix products."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from parser.batching.functional import Precision, by_onednn, has_onednn, set_precision

SHAPES = {"cpu": ((1024, 1024, 1024), (4096, 256, 1024)), "cuda": ((8192, 8192, 8192), (65536, 256, 1024))}
"""Rows, inner size and columns of each matrix product."""
SECONDS_EACH = 0.05
PRODUCTS_BETWEEN_SYNCHRONISATIONS = {"cpu": 1, "cuda": 4}


def synchronise(device: torch.device) -> None:
    """Wait until all work on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_steps(run: Callable[[Any], None], batches: Sequence[Any], device: torch.device) -> list[float]:
    """Run consecutive steps, and return the seconds of each.

    On a GPU the steps are timed by CUDA events, from the end of one step to the end of the next, so that the
    host can run ahead as in a real epoch.
    """
    if device.type != "cuda":
        marks = [time.perf_counter()]
        for batch in batches:
            run(batch)
            marks.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(marks)]
    synchronise(device)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(batches) + 1)]
    events[0].record()
    for batch, event in zip(batches, events[1:], strict=True):
        run(batch)
        event.record()
    synchronise(device)
    return [begin.elapsed_time(end) / 1000 for begin, end in pairwise(events)]


class PhaseClock:
    """Sums the seconds of each phase while `on` is true.

    The time of a phase inside another one is counted for the inner phase only. On a GPU the host synchronises
    with the device at the start and end of each phase, unlike in a real step, so the phases sum up to more
    than the time of a step.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self.on = False
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = 0.0  # seconds of finished phases inside the current one

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        if not self.on:
            yield
            return
        before, self._inside = self._inside, 0.0
        synchronise(self._device)
        began = time.perf_counter()
        yield
        synchronise(self._device)
        total = time.perf_counter() - began
        self.seconds[phase] += total - self._inside
        self._inside = before + total


class Ceiling:
    """Measures large matrix products for a short time in each turn. MFU is relative to their speed."""

    def __init__(self, device: str, threads: int, precision: Precision):
        """Raises ValueError if the device does not support the precision."""
        torch.set_num_threads(threads)
        self._device = torch.device(device)
        set_precision(precision, self._device)
        self._products: list[tuple[Callable[[], Tensor], int]] = []
        for rows, inner, columns in SHAPES[self._device.type]:
            left = torch.randn(rows, inner, device=self._device)
            right = torch.randn(columns, inner, device=self._device)
            if precision == "bfloat16":
                left, right = left.bfloat16(), right.bfloat16()
            both = device == "cpu" and has_onednn() and precision == "float32"
            for product in (F.linear, by_onednn) if both else (F.linear,):
                self._products.append((partial(product, left, right), 2 * rows * inner * columns))

    def turn(self) -> list[float]:
        """Return the operations per second of each product."""
        return [self._speed(product, operations) for product, operations in self._products]

    def _speed(self, product: Callable[[], Tensor], operations: int) -> float:
        product()
        synchronise(self._device)
        between = PRODUCTS_BETWEEN_SYNCHRONISATIONS[self._device.type]
        repetitions, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < SECONDS_EACH or not repetitions:
            for _ in range(between):
                product()
            synchronise(self._device)
            repetitions += between
        return repetitions * operations / passed
