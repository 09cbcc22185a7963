"""The settings of a speed run. The text under a field is its documentation."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from parser.batching import Precision
from parser.speed.tasks.plugin import Mode
from parser.system.settings import Count, Settings, Threads, contradiction_error

Seconds = Annotated[float, Field(gt=0)]
Sizes = Annotated[list[Count], Field(min_length=1)]
# The tags select one of the two forms, so that errors are about that form. "<...>" is not a key.
BatchSizes = Annotated[
    Annotated[Sizes, Tag("<list>")] | Annotated[dict[str, Sizes], Field(min_length=1), Tag("<by method>")],
    Discriminator(lambda sizes: "<by method>" if isinstance(sizes, dict) else "<list>"),
]


class Experiment(Settings):
    """A plugin with its settings, measured with several methods and batch sizes."""

    plugin: str
    """Name of a plugin that `stack-parser plugins` lists, or MODULE:CLASS of one that is not installed."""
    settings: dict[str, Any] = Field({})
    """Settings of the plugin. Those that are not given have the plugin's defaults."""
    methods: list[str] | None = Field(None, min_length=1)
    """Batching methods to measure. Default: all methods of the plugin."""
    modes: list[Mode] = Field(["train"], min_length=1)
    """What is measured. train: a whole training step. infer: the forward pass, from inputs to outputs."""
    batch_sizes: BatchSizes = Field([1, 8, 32, 64, 128, 256])
    """Batch sizes: a list for all methods, or a list for each method. `none` needs only 1, unless speeds are
    compared at equal batch sizes."""


class Learning(Settings):
    """A plugin that is trained with several methods until it reaches a score."""

    plugin: str
    settings: dict[str, Any] = Field({})
    methods: list[str] | None = Field(None, min_length=1)
    batch_size: Count = 1
    target: float
    """Score to reach, in the plugin's measure."""
    epochs: Count = 20
    """Number of epochs to train. Training does not stop when the target is reached."""
    seeds: Count = 1
    """Number of runs of each method. The first has the config's seed, the others the seeds after it."""


class External(Settings):
    """Another program, measured in turns with other programs of the same task."""

    command: str
    """Shell command that runs the program. ${PARSER_DATA} stands for the data folder."""
    pattern: str
    """Regular expression for the program's output. Its first group is the speed in sentences per second."""
    task: str = ""
    """Name of a task. Programs of the same task take turns, and the report compares them with the first
    one."""
    needs: list[str] = Field([])
    """Files or folders that the program needs. If one is missing, the program is skipped. ${PARSER_DATA}
    stands for the data folder."""

    @field_validator("pattern")
    @classmethod
    def _must_have_a_group(cls, pattern: str) -> str:
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        if not groups:
            raise ValueError("needs a group, in brackets, around the speed")
        return pattern


class SpeedConfig(Settings):
    experiments: dict[str, Experiment] = Field({})
    """Experiments, by their names in reports and plots."""
    external: dict[str, External] = Field({})
    """Other programs, by their names in the report."""
    external_turns: Count = 5
    """Number of times that each other program is run and measured, after one run that is not."""
    learning: dict[str, Learning] = Field({})
    """Learning curves, by their names. They are measured one after the other."""
    devices: list[str] = Field(["auto"], min_length=1)
    """Devices to measure on: cpu, cuda, cuda:1, ...; auto is CUDA if available."""
    threads: list[Threads] = Field([1], min_length=1)
    """Numbers of CPU threads of PyTorch, or of workers of asynchronous messages. `learning` uses the largest
    number."""
    precisions: list[Precision] = Field(["float32"], min_length=1)
    """Precisions of matrix products, see `training.precision`. `learning` uses the first one."""
    seed: int = Field(1, ge=-(2**63), lt=2**63)
    seconds: float = Field(20.0, gt=0, allow_inf_nan=True)
    """Measuring time of each cell, without warm-up, in at least six turns. It ends earlier when
    `relative_error` is reached."""
    relative_error: float = Field(0.02, gt=0)
    """Relative error at which measuring a cell ends: half the width of its 95 % interval, divided by the
    median, is at most this."""
    turn: Seconds = 1.0
    """Approximate measuring time of a cell before the next cell's turn. A turn has at least 16 steps, or
    the whole epoch if it has fewer than 32 batches; with `none`, 16 steps of large batches may take a
    minute."""
    warmup: Seconds = 2.0
    """Time that a cell runs before it is measured. It runs at least once."""
    together: Count = 16
    """Maximum number of cells that are measured in turns. If one batch size has more cells than this, all its
    cells are measured in turns. Each cell is a process, so memory limits this number."""
    timeout: Seconds = 900.0
    """Time after which a cell that does not answer is given up."""

    @model_validator(mode="after")
    def _must_measure_something(self) -> SpeedConfig:
        if not self.experiments and not self.external:
            why = "there is nothing to measure: name some here, or in `external`"
            raise contradiction_error([("experiments", why)])
        return self
