"""Measures the time of steps and of their phases."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch


def synchronise(device: torch.device) -> None:
    """Wait until all work on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_steps(run: Callable[[Any], None], batches: Sequence[Any], device: torch.device) -> list[float]:
    """Seconds of each of several consecutive steps.

    On a GPU they are measured by CUDA events, from the end of one step to the end of the next, so that the
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

    The time of a phase inside of another is counted for the inner one only. On a GPU the host synchronises
    with the device at the ends of each phase, which a real step does not do: the sum of the phases is more
    than the time of a step.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self.on = False
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = 0.0  # seconds of finished phases inside of the current one

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
