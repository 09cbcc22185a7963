"""Seconds of steps and of their parts."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_steps(run: Callable[[Any], None], batches: Sequence[Any], device: torch.device) -> list[float]:
    """Seconds of each step of a row of steps.

    On a GPU from the end of one step to the end of the next by the device's own clock, so that the host
    may run ahead as it does in a real epoch; the whole row ends when the device is done.
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
    """Adds up the seconds of each phase while it is switched on; costs next to nothing while it is not.

    Those of a phase inside of another count for the inner one alone.

    On a GPU every phase waits for the device, which a real step does not: the parts are right, their sum is
    more than a step's time.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self.on = False
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = 0.0  # the seconds of phases inside of the present one that are over

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
