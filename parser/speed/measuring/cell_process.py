"""Measures one cell in its own process: prepares it, warms it up, runs it in turns, and times its phases."""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from parser.batching.functional import Precision, by_onednn, has_onednn, set_precision, why_unsupported
from parser.speed.measuring.cells import Cell, validated
from parser.speed.tasks.conformance import ParameterGradient, gradients_of_run, numbers
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import MESSAGES, OTHER, AnyPlugin, Learner, Setup, Work, precisions_of
from parser.system.machine import processor
from parser.system.pytorch import MemoryUse, memory_use, reset_peak_memory, tune_process

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
        tune_process()
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
        between, speeds = PRODUCTS_BETWEEN_SYNCHRONISATIONS[self._device.type], []
        for product, operations in self._products:
            product()
            synchronise(self._device)
            repetitions, began = 0, time.perf_counter()
            while (passed := time.perf_counter() - began) < SECONDS_EACH or not repetitions:
                for _ in range(between):
                    product()
                synchronise(self._device)
                repetitions += between
            speeds.append(repetitions * operations / passed)
        return speeds


MIN_STEPS = 16
"""Minimum steps of a turn, so that it contains short and long examples. An epoch of fewer than twice as many
steps is measured as a whole."""
COUNTED_STEPS = 4
"""Steps in which operator calls are counted."""
GOLDEN_RATIO = 0.618034


class ComparedResults(NamedTuple):
    """Results that must be the same with all methods."""

    check: list[float]
    """What the plugin's `check` returns."""
    gradients: list[ParameterGradient]
    """In training: the gradients of all parameters in a step with the first batch."""


class Started(NamedTuple):
    skipped: str | None = None
    results: ComparedResults | None = None
    prepare_seconds: float = 0.0
    first_seconds: float = 0.0
    """Seconds to compute the results. They are computed first, so compilation and graph capture count."""


@dataclass(frozen=True)
class Turn:
    """Consecutive steps, with the seconds and the work of each."""

    seconds: list[float]
    works: list[Work]

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds)

    @property
    def sentences_per_second(self) -> float:
        return sum(work.sentences for work in self.works) / self.total_seconds

    @property
    def tokens_per_second(self) -> float:
        return sum(work.tokens for work in self.works) / self.total_seconds

    @property
    def operations_per_second(self) -> float:
        return sum(work.operations for work in self.works) / self.total_seconds


class Finished(NamedTuple):
    phase_seconds: dict[str, float]
    """Seconds for each sentence by phase; `other` is the rest."""
    calls: float | None
    """Operator calls in each step; None if some of them are in other threads or processes."""
    memory: MemoryUse


class MeasuredCell:
    """A plugin prepared for one cell."""

    def __init__(self, cell: Cell):
        tune_process()
        torch.set_num_threads(cell.threads)
        torch.manual_seed(cell.seed)
        self._device = torch.device(cell.device)
        self._precision = cell.precision
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device.index or 0)
        self._clock = PhaseClock(self._device)
        self._plugin: AnyPlugin = find(cell.plugin)()
        self._setup = Setup(
            settings=validated(type(self._plugin), cell.settings),
            method=cell.method,
            mode=cell.mode,
            batch_size=cell.batch_size,
            device=self._device,
            seed=cell.seed,
            phase=self._clock,
            threads=cell.threads,
        )

    def results(self) -> ComparedResults | None:
        """Return the results to compare, or None if the cell is skipped."""
        if self._skip():
            return None
        self._plugin.prepare(self._setup)
        return self._results()

    def _results(self) -> ComparedResults:
        check = numbers(self._plugin.check())
        if self._setup.mode != "train":
            return ComparedResults(check, [])
        torch.manual_seed(self._setup.seed)
        return ComparedResults(check, gradients_of_run(self._plugin, self._plugin.batches()[0]))

    def start(self, warmup: float, turn: float) -> Started:
        """Prepare and warm up. warmup: seconds. turn: approximate seconds of each turn."""
        reason = self._skip()
        if reason:
            return Started(skipped=reason)
        began = time.perf_counter()
        self._plugin.prepare(self._setup)
        synchronise(self._device)
        prepare_seconds = time.perf_counter() - began
        gc.collect()
        gc.freeze()  # prepared objects stay alive, so the garbage collector need not visit them
        began = time.perf_counter()
        results = self._results()
        first_seconds = time.perf_counter() - began
        works = [(batch, _with_python_numbers(self._plugin.work(batch))) for batch in self._plugin.batches()]
        self._by_length = sorted(works, key=lambda pair: pair[1].tokens / pair[1].sentences)
        self._steps, number, fastest = self._steps_of_a_turn(1), 0, math.inf
        began = time.perf_counter()
        while not number or time.perf_counter() - began < warmup:
            # A turn that another program interrupts seems long; from it, turns would become far too short.
            fastest = min(fastest, self.turn(number).total_seconds)
            number += 1
        self._steps = self._steps_of_a_turn(round(turn * self._steps / fastest))
        reset_peak_memory(self._device)
        return Started(None, results, prepare_seconds, first_seconds)

    def _skip(self) -> str | None:
        """Return why the cell cannot be measured, or set the precision and return None."""
        if self._precision not in precisions_of(type(self._plugin)):
            return f"{self._plugin.name} computes in {' or '.join(precisions_of(type(self._plugin)))} only"
        reason = why_unsupported(self._precision, self._device, processor())
        if reason:
            return f"{self._precision}: {reason}"
        set_precision(self._precision, self._device)
        return self._plugin.skip(self._setup)

    def _steps_of_a_turn(self, wanted: int) -> int:
        """Return the steps of a turn. Short epochs are measured whole: each batch is a large part of them."""
        epoch = len(self._by_length)
        steps = max(min(MIN_STEPS, epoch), wanted)
        return epoch if epoch < 2 * MIN_STEPS and steps <= epoch else steps

    def turn(self, number: int, by_phase: bool = False) -> Turn:
        """Run the `number`-th sample of an epoch. by_phase: whether the time of each phase is measured."""
        batches, works = zip(*self._sample(number, self._steps), strict=True)
        self._plugin.run(batches[-1])  # warm the caches again after the turns of other cells
        self._clock.on = by_phase
        seconds = time_steps(self._plugin.run, batches, self._device)
        self._clock.on = False
        return Turn(seconds, list(works))

    def begin_to_learn(self) -> str | None:
        """Prepare; returns why if the cell is skipped. Raises ValueError for a plugin without scores."""
        if not isinstance(self._plugin, Learner):
            raise ValueError(f"{self._plugin.name} lacks some of `learn`, `score` and `notes`")
        reason = self._skip()
        if not reason:
            self._plugin.prepare(self._setup)
        return reason

    def learn(self, epoch: int) -> tuple[float, float]:
        """Train an epoch; returns its seconds and the score after it."""
        plugin = self._plugin
        assert isinstance(plugin, Learner)
        synchronise(self._device)
        began = time.perf_counter()
        plugin.learn(epoch)
        synchronise(self._device)
        return time.perf_counter() - began, plugin.score()

    def notes(self) -> dict[str, float]:
        """Return further figures of the plugin about the epochs."""
        assert isinstance(self._plugin, Learner)
        return dict(self._plugin.notes())

    def finish(self, number: int) -> Finished:
        """Measure phases in one more turn, peak memory and operator calls. number: the number of the turn."""
        turn = self.turn(number, by_phase=True)
        sentences = sum(work.sentences for work in turn.works)
        phases = {phase: seconds / sentences for phase, seconds in self._clock.seconds.items()}
        phases[OTHER] = max(0.0, turn.total_seconds / sentences - sum(phases.values()))
        peak = memory_use(self._device)  # before counting calls, which needs memory itself
        with CallCounter() as counter:
            for batch, _ in self._sample(number, COUNTED_STEPS):
                self._plugin.run(batch)
        calls = None if MESSAGES in phases else counter.calls / COUNTED_STEPS
        return Finished(phases, calls, peak)

    def _sample(self, number: int, steps: int) -> Iterator[tuple[Any, Work]]:
        """Yield batches with their work, evenly spread over the lengths of an epoch. Each number selects
        different ones.
        """
        count = len(self._by_length)
        shift = number * GOLDEN_RATIO % 1
        for step in range(steps):
            yield self._by_length[int((step + shift) * count / steps) % count]


class CallCounter(TorchDispatchMode):
    """Counts operator calls, including those of the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return function(*args, **(kwargs or {}))


def _with_python_numbers(work: Work) -> Work:
    """Return the work with int and float instead of NumPy or torch scalars."""
    padding = None if work.padding is None else float(work.padding)
    counts = {name: float(count) for name, count in work.counts.items()}
    return Work(
        int(work.sentences), int(work.tokens), float(work.operations), padding, counts, int(work.batches)
    )
