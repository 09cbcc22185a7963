"""What a speed run's YAML file may say. The text under a field is its documentation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from parser.config import Count, Settings, Threads
from parser.plugins import Mode

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=True)]
# Told apart before they are read, so that only what was meant is said to be wrong; "<...>" is not a key.
Sizes = Annotated[
    Annotated[list[Count], Tag("<list>")] | Annotated[dict[str, list[Count]], Tag("<by method>")],
    Discriminator(lambda sizes: "<by method>" if isinstance(sizes, dict) else "<list>"),
]


class Experiment(Settings):
    """A plugin with settings of its own, by all methods and batch sizes that are asked for."""

    plugin: str
    """As `stack-parser plugins` names it."""
    settings: dict[str, Any] = Field({})
    """The plugin's own; what is not said here is as the plugin has it."""
    methods: list[str] | None = None
    """Batching methods; all that the plugin has unless said."""
    modes: list[Mode] = Field(["train"], min_length=1)
    """train: a whole training step. infer: from inputs to outputs."""
    batch_sizes: Sizes = Field([1, 8, 32, 64, 128, 256])
    """For every method the same, or a list for each method; `none` need not have more than 1."""


class Learning(Settings):
    """A plugin that is trained by each method that is asked for, and when it reaches a score."""

    plugin: str
    settings: dict[str, Any] = Field({})
    methods: list[str] | None = None
    batch_size: Count = 1
    target: float
    """The score, as the plugin has it."""
    epochs: Count = 20
    """To train for, also beyond the target."""


class SpeedConfig(Settings):
    experiments: dict[str, Experiment] = Field(min_length=1)
    """By the names that the plots will show."""
    learning: dict[str, Learning] = Field({})
    """How long the training of some takes until it is good. Not in turns: one after the other."""
    devices: list[str] = Field(["auto"], min_length=1)
    """cpu, cuda, ...; auto takes CUDA where there is one."""
    threads: list[Threads] = Field([1], min_length=1)
    """Of the CPU, for torch, or as many workers for messages. Learning has the most of these."""
    seed: int = Field(1, ge=-(2**63), lt=2**63)
    seconds: Seconds = 20.0
    """A cell is measured for so long, its warming up not counted, unless its interval is tight before."""
    precision: float = Field(0.02, gt=0)
    """The interval is tight when half its width is such a share of the median."""
    turn: Seconds = 1.0
    """About so long each cell is measured before it is the next one's turn."""
    warmup: Seconds = 2.0
    """Each cell runs for so long, and once at least, before it is measured."""
    together: Count = 16
    """So many processes wait for their turns at the same time, or as many as a batch size has methods; memory
    limits it."""
    timeout: Seconds = 900.0
    """A cell that does not answer for so long is given up."""
