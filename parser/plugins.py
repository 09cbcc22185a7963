"""What the speed harness measures: a plugin is a model with the ways of batching it.

A file `parser/benchmarks/FOLDER/NAME_plugin.py` has one as `PLUGIN`; other packages add theirs through the
entry-point group `stack_parser.plugins`. The harness makes one object for each cell that it measures and
calls, in this order, `skip`, `prepare`, `batches`, `check` and, many times, `run`.
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
"""A training step, from the examples to the changed weights; or inference, from inputs to outputs."""

NO_BATCHING = "none"
"""The method that every plugin has: one example after the other. Its results are those of the others."""

CELLS, CELLS_BACKWARD = "cells", "cells backward"
PHASES = ("data", "graph", "scheduling", "forward", CELLS, "backward", CELLS_BACKWARD, "update", "messages")
"""The parts of a run, as in Neubig et al. 2017, Figure 2. What no phase covers is reported as `other`.

While messages are exchanged, forward, backward and update are going on side by side.
The cells are the modules of a network that is put together anew for each example; where they are told apart
(inside of `forward` and `backward`), these are without them: mostly the putting together of their rows.
"""


@dataclass(frozen=True)
class Setup:
    """One cell, as a plugin needs to know it."""

    settings: Any
    """The plugin's own, an instance of its `Settings`."""
    method: str
    mode: Mode
    batch_size: int
    device: torch.device
    seed: int
    """Equal seeds give equal weights and batches, whatever the method."""
    phase: Callable[[str], AbstractContextManager[object]]
    """`with phase("forward"): ...` says which part of `run` this is; next to free while speed is measured.

    A phase inside of another takes its time from that one."""
    threads: int = 1
    """Of the CPU: torch's own, or the workers of a plugin that has some."""


@dataclass(frozen=True)
class Work:
    """What one batch asks for, whatever the method; only the padding depends on it."""

    sentences: int
    """Examples, where they are no sentences."""
    tokens: int
    operations: float
    """Floating-point operations of the matrix products, forward and in training backward, as few as the
    function needs: no padding, nothing that is thrown away, and no parameter update."""
    padding: float | None = None
    """Share of the rows that the method computes which nobody reads; None where it is not known."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """What else can be counted, by its name for people, as the calls that a schedule makes."""
    batches: int = 1
    """Of `batch_size` at the most, that one run has on their way."""


class Plugin(Protocol):
    """A model to measure. Its class has no arguments, and `prepare` makes it ready for one cell."""

    name: ClassVar[str]
    paper: ClassVar[str]
    """The paper and the table or figure that it stands for."""
    methods: ClassVar[Mapping[Mode, Sequence[str]]]
    """The batching methods of each mode, `none` among them."""
    Settings: ClassVar[type[BaseModel]]
    """What a config may set. Its defaults must work where there is nothing but the project."""

    def skip(self, setup: Setup) -> str | None:
        """Why this cell can not be measured here, or None."""

    def prepare(self, setup: Setup) -> None:
        """Load data and build the model on the device. Not timed."""

    def batches(self) -> Sequence[Any]:
        """One epoch, in batches of `batch_size`, the same examples for every method.

        For inference a batch may hold more examples, of which `batch_size` at a time are in work; for
        training it may hold several batches, if `work` says so.
        """

    def run(self, batch: Any) -> None:
        """One training step, or inference. The only thing that is timed."""

    def check(self) -> Tensor:
        """The loss or the outputs on a few examples, in batches of `batch_size`, by the weights as they are.

        Every method, and every batch size, must give the same numbers but for rounding.
        """

    def work(self, batch: Any) -> Work:
        """What a batch asks for."""


@runtime_checkable
class Learner(Protocol):
    """A plugin that can be trained until it is good, too: `prepare`, and then epochs, each with its score."""

    def learn(self, epoch: int) -> None:
        """One epoch, in an order that its number decides, by the setup's method. This is timed."""

    def score(self) -> float:
        """On examples that are not learned from; the higher the better."""

    def notes(self) -> Mapping[str, float]:
        """What else is to be said of the epochs, by its name for people."""


def method_titles(plugin: type[Plugin]) -> Mapping[str, str]:
    """Methods in words, for plots: the plugin's optional attribute `method_titles`, and "one by one"."""
    return {NO_BATCHING: "one by one", **getattr(plugin, "method_titles", {})}


def examples_counted(plugin: type[Plugin]) -> str:
    """What is counted for the speed: the plugin's optional attribute `example_name`, else "sentences"."""
    return getattr(plugin, "example_name", "sentences")


def former_methods(plugin: type[Plugin]) -> Mapping[str, str]:
    """New names of renamed methods by their old ones: the plugin's optional attribute `former_methods`."""
    return getattr(plugin, "former_methods", {})
