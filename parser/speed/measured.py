"""One cell, in its own process: prepared, warmed up, and measured when it is its turn."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from parser.machine import MemoryUse, memory_use, reset_peak_memory
from parser.plugins import Learner, Plugin, Setup, Work
from parser.speed.cells import Cell, validated
from parser.speed.discovery import find
from parser.speed.stopwatch import PhaseClock, synchronise, time_steps

STEPS_IN_A_TURN = 16
"""Or an epoch, at least, for a turn must have short and long examples; an epoch of less than twice as many is
measured whole."""
STEPS_COUNTED = 4
"""Whose operator calls are counted."""
GOLDEN = 0.618034


class Started(NamedTuple):
    skipped: str | None = None
    check: list[float] | None = None
    prepare_seconds: float = 0.0
    first_seconds: float = 0.0
    """Of the check, which is the first to run: compilation and graph capture are in it."""


@dataclass(frozen=True)
class Turn:
    """Steps in a row, each with its seconds and its batch's work."""

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
    split: dict[str, float]
    """Seconds of each phase, and of the rest as `other`, for a sentence."""
    calls: float | None
    """Operator calls of a step, if it makes any in this thread."""
    memory: MemoryUse


class MeasuredCell:
    """A plugin made ready for one cell."""

    def __init__(self, cell: Cell):
        torch.set_num_threads(cell.threads)
        # Without TF32, whose ten bits would make methods differ that are equal.
        torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(cell.seed)
        self._device = torch.device(cell.device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        self._clock = PhaseClock(self._device)
        self._plugin: Plugin = find(cell.plugin)()
        self._setup = Setup(
            settings=validated(type(self._plugin), json.loads(cell.settings)),
            method=cell.method,
            mode=cell.mode,
            batch_size=cell.batch_size,
            device=self._device,
            seed=cell.seed,
            phase=self._clock,
            threads=cell.threads,
        )

    def results(self) -> list[float] | None:
        """What every method must agree on; None for a cell that is skipped."""
        if self._plugin.skip(self._setup):
            return None
        self._plugin.prepare(self._setup)
        return numbers(self._plugin.check())

    def start(self, warmup: float, turn: float) -> Started:
        """Prepare and warm up for `warmup` seconds; from then on a turn takes about `turn` seconds."""
        reason = self._plugin.skip(self._setup)
        if reason:
            return Started(skipped=reason)
        began = time.perf_counter()
        self._plugin.prepare(self._setup)
        synchronise(self._device)
        prepare_seconds = time.perf_counter() - began
        gc.collect()
        gc.freeze()  # what is prepared stays, so Python need not look through it again and again
        began = time.perf_counter()
        check = numbers(self._plugin.check())
        first_seconds = time.perf_counter() - began
        works = [(batch, _plain(self._plugin.work(batch))) for batch in self._plugin.batches()]
        self._by_length = sorted(works, key=lambda pair: pair[1].tokens / pair[1].sentences)
        self._steps, number, last = self._steps_of_a_turn(1), 0, 0.0
        began = time.perf_counter()
        while not last or time.perf_counter() - began < warmup:
            last = self.turn(number).total_seconds
            number += 1
        self._steps = self._steps_of_a_turn(round(turn * self._steps / last))
        reset_peak_memory(self._device)
        return Started(None, check, prepare_seconds, first_seconds)

    def _steps_of_a_turn(self, wanted: int) -> int:
        """An epoch of few batches is measured whole: each of them is too much of it to be left out."""
        epoch = len(self._by_length)
        steps = max(min(STEPS_IN_A_TURN, epoch), wanted)
        return epoch if epoch < 2 * STEPS_IN_A_TURN and steps <= epoch else steps

    def turn(self, number: int, by_phase: bool = False) -> Turn:
        """Run the `number`-th sample of an epoch; by_phase: with the clock that tells its phases apart."""
        batches, works = zip(*self._sample(number, self._steps), strict=True)
        self._plugin.run(batches[-1])  # others have had their turns: caches and memory are cold
        self._clock.on = by_phase
        seconds = time_steps(self._plugin.run, batches, self._device)
        self._clock.on = False
        return Turn(seconds, list(works))

    def begin_to_learn(self) -> str | None:
        """Prepare; or why the cell is skipped. Raises ValueError for a plugin that can not be scored."""
        if not isinstance(self._plugin, Learner):
            raise ValueError(f"{self._plugin.name} has not all of `learn`, `score` and `notes`")
        reason = self._plugin.skip(self._setup)
        if not reason:
            self._plugin.prepare(self._setup)
        return reason

    def learn(self, epoch: int) -> tuple[float, float]:
        """The seconds of the epoch, and the score after it."""
        plugin = self._plugin
        assert isinstance(plugin, Learner)
        synchronise(self._device)
        began = time.perf_counter()
        plugin.learn(epoch)
        synchronise(self._device)
        return time.perf_counter() - began, plugin.score()

    def notes(self) -> dict[str, float]:
        """What else the plugin says of the epochs."""
        assert isinstance(self._plugin, Learner)
        return dict(self._plugin.notes())

    def finish(self, number: int) -> Finished:
        """Where the time of such a turn goes, which is measured apart, and what the cell needed."""
        turn = self.turn(number, by_phase=True)
        sentences = sum(work.sentences for work in turn.works)
        split = {phase: seconds / sentences for phase, seconds in self._clock.seconds.items()}
        split["other"] = max(0.0, turn.total_seconds / sentences - sum(split.values()))
        needed = memory_use(self._device)  # before calls are counted, which is not part of the work
        with CallCounter() as counter:
            for batch, _ in self._sample(number, STEPS_COUNTED):
                self._plugin.run(batch)
        # What other threads call is not counted.
        return Finished(split, counter.calls / STEPS_COUNTED or None, needed)

    def _sample(self, number: int, steps: int) -> Iterator[tuple[Any, Work]]:
        """So many batches, evenly spread over the lengths of the epoch, others for each number."""
        count = len(self._by_length)
        shift = number * GOLDEN % 1
        for step in range(steps):
            yield self._by_length[int((step + shift) * count / steps) % count]


class CallCounter(TorchDispatchMode):
    """Counts the operators that are called, those of the backward pass too."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return function(*args, **(kwargs or {}))


def _plain(work: Work) -> Work:
    """With plain numbers, whatever a plugin counts with."""
    padding = None if work.padding is None else float(work.padding)
    counts = {name: float(count) for name, count in work.counts.items()}
    return Work(
        int(work.sentences), int(work.tokens), float(work.operations), padding, counts, int(work.batches)
    )


def numbers(results: Tensor | Sequence[float]) -> list[float]:
    """What a plugin's `check` gives, to compare."""
    return torch.as_tensor(results).detach().double().flatten().tolist()
