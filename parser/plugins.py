"""The interface between models and the benchmark harness.

A plugin is a model with several batching methods. A file `parser/benchmarks/FOLDER/NAME_plugin.py` defines
one as `PLUGIN`; other packages register theirs in the entry-point group `stack_parser.plugins`. The harness
creates an object for each cell and calls, in this order, `skip`, `prepare`, `batches`, `check` and,
repeatedly, `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from pydantic import BaseModel
from torch import Tensor

Mode = Literal["train", "infer"]
"""A training step, from the examples to the updated weights, or inference, from inputs to outputs."""

NO_BATCHING = "none"
"""The method without batching, which every plugin has: the reference for the results of the others."""

CELLS, CELLS_BACKWARD = "cells", "cells backward"
PHASES = ("data", "graph", "scheduling", "forward", CELLS, "backward", CELLS_BACKWARD, "update", "messages")
"""The phases of a run, as in Neubig et al. 2017, Figure 2. Time outside all phases is reported as `other`.

In `messages`, forward passes, backward passes and updates run concurrently. `cells` and `cells backward` are
the modules of networks that are assembled for each example. They are nested in `forward` and `backward`,
whose time excludes them: it is mostly that of gathering and concatenating rows.
"""


@dataclass(frozen=True)
class Setup:
    """The cell that a plugin is to run."""

    settings: Any
    """An instance of the plugin's `Settings`."""
    method: str
    mode: Mode
    batch_size: int
    device: torch.device
    seed: int
    """Equal seeds give equal weights and batches for all methods."""
    phase: Callable[[str], AbstractContextManager[object]]
    """`with phase("forward"): ...` marks a phase of `run`. It costs almost nothing while speed is measured.

    The time of a nested phase is not counted in the outer one."""
    threads: int = 1
    """CPU threads of PyTorch, or workers of a plugin that has workers."""


@dataclass(frozen=True)
class Work:
    """The work in a batch. Only `padding` depends on the method."""

    sentences: int
    """Number of sentences, or of examples of another kind."""
    tokens: int
    operations: float
    """Floating-point operations of the matrix products that the function needs: forward and, in training,
    backward, without padding, unused results and parameter updates."""
    padding: float | None = None
    """Share of the computed rows that are not used; None if unknown."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Further counts by their names in reports, such as the calls of a schedule."""
    batches: int = 1
    """Number of batches, of at most `batch_size` examples, that one run processes."""


class Plugin(Protocol):
    """A model to measure. The class is created without arguments; `prepare` sets it up for a cell."""

    name: ClassVar[str]
    paper: ClassVar[str]
    """The paper, with the table or figure, that the plugin reproduces."""
    methods: ClassVar[Mapping[Mode, Sequence[str]]]
    """The batching methods of each mode, including `none`."""
    Settings: ClassVar[type[BaseModel]]
    """The settings of a config. Their defaults must work without further data."""

    def skip(self, setup: Setup) -> str | None:
        """Why the cell cannot be measured here; None if it can."""

    def prepare(self, setup: Setup) -> None:
        """Load the data and build the model on the device. Not timed."""

    def batches(self) -> Sequence[Any]:
        """One epoch in batches of `batch_size`, with the same examples for all methods.

        For inference a batch may have more examples, of which `batch_size` are processed at a time. For
        training it may combine several batches; see `Work.batches`.
        """

    def run(self, batch: Any) -> None:
        """One training step, or inference. Only this is timed."""

    def check(self) -> Tensor:
        """The loss or the outputs for some examples in batches of `batch_size`, with the current weights.

        All methods and batch sizes must give the same numbers, up to rounding.
        """

    def work(self, batch: Any) -> Work:
        """The work in a batch."""


@runtime_checkable
class Learner(Protocol):
    """A plugin that can also be trained to convergence, in epochs after `prepare`."""

    def learn(self, epoch: int) -> None:
        """Train for an epoch by the method of the setup. Its number determines the order. This is timed."""

    def score(self) -> float:
        """The score on held-out examples; higher is better."""

    def notes(self) -> Mapping[str, float]:
        """Further figures about the training, by their names in reports."""
