"""How busy the machine is with other programs, which slow down what is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from parser.proc import CpuTimes, cpu_times

SAMPLE_SECONDS, SECONDS_BETWEEN = 0.25, 20.0
"""How long a sample takes, and the time between two."""
BUSY_SHARE = 0.1
"""The machine is busy if other programs use a larger share of its cores."""


class MachineLoad:
    """Reports the load in one sentence, and again whenever the machine becomes busy or quiet."""

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

    def check(self) -> None:
        """To be called while this program and its processes are idle: what runs is of other programs.

        Does nothing if the last sample is recent.
        """
        if self._now() < self._next_sample:
            return
        self._next_sample = self._now() + SECONDS_BETWEEN
        cores = os.cpu_count() or 1
        used = self._cores_in_use(cores)
        if used is None:
            self._report_load_average(cores)
            return
        busy = used > BUSY_SHARE * cores
        if busy is self._was_busy:
            return
        self._was_busy = busy
        use = f"other programs use {used:.1f} of {cores} CPU cores"
        self._report(
            f"the machine is busy: {use}; timings will vary" if busy else f"the machine is quiet: {use}"
        )

    def _cores_in_use(self, cores: int) -> float | None:
        before = self._read()
        if before is None:
            return None
        self._sleep(SAMPLE_SECONDS)
        after = self._read()
        if after is None or after.total <= before.total:
            return None
        return cores * (after.busy - before.busy) / (after.total - before.total)

    def _report_load_average(self, cores: int) -> None:
        """Once, for later averages include this program."""
        if self._was_busy is not None or not hasattr(os, "getloadavg"):
            return
        average = os.getloadavg()[0]
        self._was_busy = average > BUSY_SHARE * cores
        state = "busy" if self._was_busy else "quiet"
        end = "; timings will vary" if self._was_busy else ""
        self._report(f"the machine is {state}: its load average is {average:.1f} on {cores} CPU cores{end}")
