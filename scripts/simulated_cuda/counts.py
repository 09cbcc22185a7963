"""Counts of the simulated device's work, and budgets for the work of a GPU in training and parsing."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import parser

ROOT = Path(parser.__file__).parent.parent
THIS = Path(__file__).parent
LIBRARY_LSTM = "cuDNN LSTM"


class Synchronization(NamedTuple):
    cause: str
    file: str
    line: int


@dataclass
class Counts:
    operators: Counter[str] = field(default_factory=Counter)
    """Calls of operators that launch kernels, and of cuDNN's LSTM, forward and backward, by name."""
    synchronizations: Counter[Synchronization] = field(default_factory=Counter)
    """The number of times that the host waited for the device."""
    uploads: int = 0
    """Copies from the host to the device."""

    @property
    def launches(self) -> int:
        return self.operators.total()

    @property
    def library_lstms(self) -> int:
        return self.operators[LIBRARY_LSTM]

    def synchronize(self, cause: str) -> None:
        self.synchronizations[Synchronization(cause, *_caller())] += 1

    def synchronizations_by_file(self) -> Counter[str]:
        by_file: Counter[str] = Counter()
        for each, number in self.synchronizations.items():
            by_file[each.file] += number
        return by_file


def _caller() -> tuple[str, int]:
    """The innermost frame in a file of the project outside this folder: the file and the line."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if path.is_relative_to(ROOT) and not path.is_relative_to(THIS) and "site-packages" not in path.parts:
            return str(path.relative_to(ROOT)), frame.lineno or 0
    return "elsewhere", 0


class Launches(NamedTuple):
    """Kernel launches in a training step of Ding & Koehn's network; a call of cuDNN counts as one."""

    once: int
    repeated: int
    """Launches for each level of the stacks' forest (replay), or for each step."""

    def of(self, repetitions: int) -> int:
        return self.once + self.repeated * repetitions


MAKING = 125
"""Launches to make a batch, if no CUDA graph contains them; 255 with composition."""
LAUNCHES = {"replay": Launches(100 + MAKING, 20), "step": Launches(100 + MAKING, 70)}
UPLOADS = 1
"""The number of uploads for a batch."""
WAITS_OF_A_TRAINING_STEP = 0
"""Losses are read only after every twentieth step."""
