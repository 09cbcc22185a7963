"""Reports of a speed run while it measures: its progress, and the load of other programs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from parser.system.console import warn
from parser.system.machine import CpuTimes, cpu_times
from parser.system.progress_bar import ProgressBar

BAR = "{desc} {percentage:3.0f}%|{bar}| {n:.1f}/{total} cells, {elapsed} elapsed, {remaining} remaining"
SECONDS_BETWEEN_LINES = 30.0
SAMPLE_SECONDS, SECONDS_BETWEEN = 0.25, 20.0
"""The duration of a sample of the load, and the time between two samples."""
BUSY_SHARE = 0.1
"""The machine is busy if other programs use a larger share of its cores."""


def is_busy(busy_cores: float, cores: int) -> bool:
    """Return whether other programs use so many of the cores that timings will vary."""
    return busy_cores > BUSY_SHARE * cores


class CellProgress:
    """Shows a progress bar on a terminal; elsewhere writes a line for each cell, and the progress every half
    minute."""

    def __init__(self, cells: int):
        """cells: the number of cells to measure."""
        self._bar = ProgressBar(total=cells, unit="cell", disable=None, bar_format=BAR)
        self._started, self._done = 0, 0.0
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES

    def start(self, name: str) -> None:
        """Show that a cell is being prepared."""
        self._started += 1
        if self._bar.disable:
            warn(f"cell {self._started} of {self._bar.total}: {name}")
        else:
            self._bar.set_description_str(f"starting {name}")

    def advance(self, name: str, share: float) -> None:
        """Add a share of a cell's measuring to the progress."""
        self._done += share
        if not self._bar.disable:
            self._bar.set_description_str(name, refresh=False)
            self._bar.update(share)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            warn(f"measured {self._done:.1f} of {self._bar.total} cells")

    def close(self) -> None:
        self._bar.close()


class MachineLoad:
    """Reports the load in one sentence, and again whenever the machine becomes busy or quiet.

    `busy_cores` is the number of cores that other programs used at the last check; None if it is unknown.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        read: Callable[[], CpuTimes | None] = cpu_times,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ):
        """report: called with a sentence. read: returns CPU times. sleep: waits for some seconds.

        now: returns seconds.
        """
        self._report, self._read, self._sleep, self._now = report, read, sleep, now
        self._next_sample = -float("inf")
        self._was_busy: bool | None = None
        self.busy_cores: float | None = None

    def check(self) -> None:
        """To be called while this program and its processes are idle, so that only other programs run.

        Does nothing if the last sample is recent.
        """
        if self._now() < self._next_sample:
            return
        self._next_sample = self._now() + SECONDS_BETWEEN
        cores = os.cpu_count() or 1
        self.busy_cores = self._cores_in_use(cores)
        if self.busy_cores is not None:
            use = f"other programs use {self.busy_cores:.1f} of {cores} CPU cores"
            self._tell(is_busy(self.busy_cores, cores), use)
        elif self._was_busy is None and hasattr(os, "getloadavg"):  # later averages include this program
            average = os.getloadavg()[0]
            use = f"its load average is {average:.1f} on {cores} CPU cores"
            self._tell(is_busy(average, cores), use)

    def _cores_in_use(self, cores: int) -> float | None:
        before = self._read()
        if before is None:
            return None
        self._sleep(SAMPLE_SECONDS)
        after = self._read()
        if after is None or after.total <= before.total:
            return None
        return cores * (after.busy - before.busy) / (after.total - before.total)

    def _tell(self, busy: bool, use: str) -> None:
        if busy is not self._was_busy:
            self._was_busy = busy
            self._report(f"the machine is {f'busy: {use}; timings will vary' if busy else f'quiet: {use}'}")
