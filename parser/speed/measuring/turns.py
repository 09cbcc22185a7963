"""Measures cells interleaved (A B A B): if the machine slows down, all of them slow down.

Says how far it is, and how busy the machine is with other programs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any

from parser.batching import Precision
from parser.evaluation.statistics import median_of
from parser.speed.measuring.cell_process import (
    Ceiling,
    ComparedResults,
    Finished,
    MeasuredCell,
    Started,
    Turn,
)
from parser.speed.measuring.cells import Cell, SpeedConfig
from parser.speed.measuring.rows import SKIPPED, WRONG, CellRow, FailedRow, SpeedRow, new_row, origin
from parser.speed.tasks.conformance import ROUNDING, disagreement, gradient_disagreement
from parser.system.console import warn
from parser.system.machine import CpuTimes, cpu_times
from parser.system.progress_bar import ProgressBar
from parser.system.remote import Remote, RemoteError

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
        before, after, self.busy_cores = self._read(), None, None
        if before:
            self._sleep(SAMPLE_SECONDS)
            after = self._read()
        if before and after and after.total > before.total:
            self.busy_cores = cores * (after.busy - before.busy) / (after.total - before.total)
            use = f"other programs use {self.busy_cores:.1f} of {cores} CPU cores"
            self._tell(is_busy(self.busy_cores, cores), use)
        elif self._was_busy is None and hasattr(os, "getloadavg"):  # later averages include this program
            average = os.getloadavg()[0]
            use = f"its load average is {average:.1f} on {cores} CPU cores"
            self._tell(is_busy(average, cores), use)

    def _tell(self, busy: bool, use: str) -> None:
        if busy is not self._was_busy:
            self._was_busy = busy
            self._report(f"the machine is {f'busy: {use}; timings will vary' if busy else f'quiet: {use}'}")


IF_KILLED = "lower `together` in the config"
MIN_TURNS = 6
"""Minimum turns of a cell. The range of fewer does not contain the median in 95 % of cases."""


LARGEST_COMPARED = 64
"""Maximum batch size for comparing gradients: `none` processes the examples of a batch one by one."""


class References:
    """Results with which the results of cells are compared. Each is computed once."""

    def __init__(self, timeout: float):
        """timeout: seconds to wait for the results."""
        self._timeout = timeout
        self._results: dict[str, ComparedResults | RemoteError] = {}  # by identity

    def difference(self, cell: Cell, results: ComparedResults) -> str | None:
        """Return how a cell's results differ from those without batching, or None. Raises RemoteError."""
        rounding = ROUNDING[cell.precision]
        difference = disagreement(results.check, self._of(cell.without_batching(1)).check, rounding)
        if difference or cell.mode != "train":
            return difference
        most = min(cell.batch_size, LARGEST_COMPARED)
        # Some plugins accept divisors only.
        size = max(each for each in range(1, most + 1) if cell.batch_size % each == 0)
        gradients = results if size == cell.batch_size else self._of(replace(cell, batch_size=size))
        expected = self._of(cell.without_batching(size))
        difference = gradient_disagreement(gradients.gradients, expected.gradients, rounding)
        return difference and f"gradients of `run`: {difference}"

    def _of(self, cell: Cell) -> ComparedResults:
        if cell.identity not in self._results:
            what = f"{cell.method} at {cell.batch_size}, with which its results are compared"
            try:
                with Remote(MeasuredCell, cell, timeout=self._timeout, advice=IF_KILLED) as remote:
                    computed = remote.call("results") or RemoteError(f"error: {what}, is skipped")
            except RemoteError as error:
                computed = RemoteError(f"error: {what}: {error.status}", error.traceback)
            self._results[cell.identity] = computed
        results = self._results[cell.identity]
        if isinstance(results, RemoteError):
            raise results
        return results


class _Runner:
    """A cell that takes turns with others."""

    def __init__(self, cell: Cell, config: SpeedConfig):
        self.cell, self._config = cell, config
        self.remote = Remote(MeasuredCell, cell, timeout=config.timeout, advice=IF_KILLED)
        self.turns: list[Turn] = []
        self.started = Started()

    def start(self, references: References) -> FailedRow | None:
        """Prepare the cell, and check its results. Returns a row if the cell cannot be measured."""
        self.started = self.remote.call("start", self._config.warmup, self._config.turn)
        if self.started.skipped:
            return new_row(FailedRow, self.cell, status=f"{SKIPPED}: {self.started.skipped}")
        assert self.started.results
        difference = references.difference(self.cell, self.started.results)
        return new_row(FailedRow, self.cell, status=f"{WRONG}: {difference}") if difference else None

    @property
    def progress(self) -> float:
        """The share of the measuring time and the turns that is over, from 0 to 1. At 1 the cell is done."""
        seconds = sum(turn.total_seconds for turn in self.turns)
        return min(1.0, seconds / self._config.seconds, len(self.turns) / MIN_TURNS)

    @property
    def done(self) -> bool:
        """Whether the time is over, or half the interval of the speed is small enough against the median."""
        if self.progress >= 1 or len(self.turns) < MIN_TURNS:
            return self.progress >= 1
        speed = median_of([turn.sentences_per_second for turn in self.turns])
        return (speed.high - speed.low) / 2 / speed.value <= self._config.relative_error

    def row_after(self, action: Callable[..., CellRow | None], *arguments: Any) -> CellRow | None:
        """Run an action, a method of this object, and return the cell's row if the action ended the cell."""
        try:
            row = action(*arguments)
        except RemoteError as error:
            row = new_row(FailedRow, self.cell, status=error.status, traceback=error.traceback)
        if row:
            self.remote.close()
        return row

    def take_turn(
        self, products: Sequence[Sequence[float]], interleaved_group: str, busy_cores: float | None
    ) -> SpeedRow | None:
        """Run a turn. Returns the cell's row if this was its last turn.

        products: for each turn up to now, the operations per second of each matrix product.
        """
        self.turns.append(self.remote.call("turn", len(self.turns)))
        if not self.done:
            return None
        finished: Finished = self.remote.call("finish", len(self.turns))
        ceiling = max(map(median, zip(*products, strict=True)))
        row = speed_row(self.cell, self.turns, self.started, finished, ceiling, interleaved_group)
        return replace(row, busy_cores=busy_cores, **origin(self.cell))


def measure_interleaved(
    cells: Sequence[Cell],
    config: SpeedConfig,
    references: References,
    progress: CellProgress,
    load: MachineLoad,
) -> Iterator[CellRow]:
    """Yield the row of each cell when it ends. The cells share the device and the number of threads."""
    with ExitStack() as stack:
        runners = []
        for cell in cells:
            progress.start(cell.name)
            runner = _Runner(cell, config)
            stack.enter_context(runner.remote)
            if row := runner.row_after(runner.start, references):
                progress.advance(cell.name, 1.0)
                yield row
            else:
                runners.append(runner)
        device, threads = cells[0].device, cells[0].threads
        ceilings = {
            precision: stack.enter_context(
                Remote(Ceiling, device, threads, precision, timeout=config.timeout)
            )
            for precision in dict.fromkeys(runner.cell.precision for runner in runners)
        }
        yield from _take_turns(runners, ceilings, progress, load)


def _take_turns(
    runners: Sequence[_Runner],
    ceilings: Mapping[Precision, Remote],
    progress: CellProgress,
    load: MachineLoad,
) -> Iterator[CellRow]:
    interleaved_group = datetime.now(UTC).isoformat(timespec="microseconds")
    products: dict[Precision, list[list[float]]] = {precision: [] for precision in ceilings}
    unfinished, busy_cores = list(runners), None
    while unfinished:
        for precision, ceiling in ceilings.items():
            try:
                products[precision].append(ceiling.call("turn"))
            except RemoteError as error:
                why = f"the machine's matrix products cannot be measured: {error.status}"
                raise ValueError(why) from error
        load.check()  # not before the first products: until then, their process imports modules
        if load.busy_cores is not None:
            busy_cores = max(busy_cores or 0.0, load.busy_cores)
        for runner in list(unfinished):
            before = runner.progress
            done = products[runner.cell.precision]
            row = runner.row_after(runner.take_turn, done, interleaved_group, busy_cores)
            if row:
                unfinished.remove(runner)
                yield row
            progress.advance(runner.cell.name, (1.0 if row else runner.progress) - before)


def speed_row(
    cell: Cell,
    turns: Sequence[Turn],
    started: Started,
    finished: Finished,
    ceiling: float,
    interleaved_group: str,
) -> SpeedRow:
    """Return the row of a cell that was measured completely."""
    sentences = [turn.sentences_per_second for turn in turns]
    speed, token_speed = median_of(sentences), median_of([turn.tokens_per_second for turn in turns])
    works = [work for turn in turns for work in turn.works]
    counted = [(work.padding, work.tokens) for work in works if work.padding is not None]
    tokens = sum(size for _, size in counted)
    operations_per_second = median(turn.operations_per_second for turn in turns)
    update_share = finished.phase_seconds.get("update", 0.0) / sum(finished.phase_seconds.values())
    return new_row(
        SpeedRow,
        cell,
        sentences_per_second=speed.value,
        interval=(speed.low, speed.high),
        quartiles=quantiles(sentences, n=4, method="inclusive")[::2],
        tokens_per_second=token_speed.value,
        tokens_interval=(token_speed.low, token_speed.high),
        operations_per_second=operations_per_second,
        ceiling=ceiling,
        mfu=operations_per_second / (1 - update_share) / ceiling,
        mfu_with_update=operations_per_second / ceiling,
        phase_seconds=finished.phase_seconds,
        padding_share=sum(share * size for share, size in counted) / tokens if counted else None,
        calls_per_step=finished.calls,
        counts={name: sum(work.counts[name] for work in works) / len(works) for name in works[0].counts},
        memory=finished.memory,
        prepare_seconds=started.prepare_seconds,
        first_seconds=started.first_seconds,
        interleaved_group=interleaved_group,
        turns=[len(turn.seconds) for turn in turns],
        seconds=[round(value, 7) for turn in turns for value in turn.seconds],
        sentences=[work.sentences for work in works],
        tokens=[work.tokens for work in works],
    )
