"""The config of a speed run, and its cells.

A cell is the unit of measurement: one method at one batch size. The text under a setting documents it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from operator import attrgetter
from typing import Annotated, Any, TypeVar

from pydantic import Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from parser.batching import Precision
from parser.speed.tasks.discovery import find_or_none
from parser.speed.tasks.plugin import NO_BATCHING, AnyPlugin, Mode, Plugin, SettingsT, examples_counted
from parser.system.device_choice import choose_device
from parser.system.settings import Count, Settings, Threads, contradiction_error, fault_lines

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


INTERLEAVED = ("experiment", "plugin", "mode", "device", "threads")
"""Cells with equal values of these fields are measured interleaved."""
COMPARED = (*INTERLEAVED, "precision")
"""Cells with equal values of these fields are compared with each other."""
KEYS = (*COMPARED, "method", "batch_size")
"""The fields that identify a cell within a run."""


CellT = TypeVar("CellT", bound="Cell")


@dataclass(frozen=True)
class Cell:
    experiment: str
    plugin: str
    mode: Mode
    device: str
    threads: int
    precision: Precision
    method: str
    batch_size: int
    seed: int
    settings: Mapping[str, Any]
    """The plugin's settings in JSON types, including defaults."""

    @property
    def identity(self) -> str:
        """A key that is equal for cells that measure the same thing."""
        own = {name: getattr(self, name) for name in Cell.__dataclass_fields__}
        return json.dumps(own, sort_keys=True)

    @property
    def place(self) -> str:
        """The device, threads and precision, for titles. A single thread and float32 are not mentioned."""
        threads = [f"{self.threads} threads"] if self.threads > 1 else []
        return ", ".join([self.device, *threads, *([] if self.precision == "float32" else [self.precision])])

    @property
    def name(self) -> str:
        """The name of the cell in messages."""
        return f"{self.experiment}: {self.method} at {self.batch_size}, {self.mode}, {self.place}"

    @property
    def examples(self) -> str:
        """What the speed counts, such as "sentences"; "examples" if the plugin is not installed."""
        plugin = find_or_none(self.plugin)
        return examples_counted(plugin) if plugin else "examples"

    def without_batching(self, batch_size: int) -> Cell:
        """Return the cell whose results this one must reproduce."""
        return replace(self, method=NO_BATCHING, batch_size=batch_size)


def on_this_machine(config: SpeedConfig) -> SpeedConfig:
    """Return the config with the devices that its names mean on this machine. Raises ValueError for devices
    that do not exist.
    """
    devices = dict.fromkeys(str(choose_device(name)) for name in config.devices)
    return config.model_copy(update={"devices": list(devices)})


def cells_of(config: SpeedConfig, find: Callable[[str], type[AnyPlugin]]) -> list[Cell]:
    """Return all cells of a config. Cells that are compared are adjacent.

    find: returns a plugin by its name. Raises ValueError for unknown methods and modes.
    """
    cells = []
    for name, experiment in config.experiments.items():
        plugin = find(experiment.plugin)
        settings = settings_of(plugin, experiment.settings, f"experiments.{name}.settings")
        modes = list(dict.fromkeys(experiment.modes))
        chosen = chosen_methods(f"experiments.{name}", plugin, experiment.methods, modes)
        for method in experiment.batch_sizes if isinstance(experiment.batch_sizes, dict) else ():
            _check_method(f"experiments.{name}.batch_sizes", method, plugin, chosen)
        threads, precisions = dict.fromkeys(config.threads), dict.fromkeys(config.precisions)
        for mode, device, count in product(modes, config.devices, threads):
            cell = partial(Cell, name, experiment.plugin, mode, device, count)
            available = [method for method in chosen if method in plugin.methods[mode]]
            cells += [
                cell(precision, method, size, config.seed, settings)
                for size, method in _by_size(experiment.batch_sizes, available)
                for precision in precisions
            ]
    return cells


def settings_of(plugin: type[AnyPlugin], settings: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the settings of a cell, including defaults, which may change. Raises what `validated` raises."""
    return validated(plugin, settings, place).model_dump(mode="json")


def validated(
    plugin: type[Plugin[SettingsT]], settings: Mapping[str, Any], place: str = "settings"
) -> SettingsT:
    """Return an instance of the plugin's `Settings`. Raises ValueError with all errors."""
    try:
        return plugin.Settings.model_validate(settings)
    except ValidationError as error:
        raise ValueError("; ".join(fault_lines(error, place))) from None


def chosen_methods(
    place: str, plugin: type[AnyPlugin], requested: Sequence[str] | None, modes: Sequence[Mode]
) -> list[str]:
    """Return the requested methods, or all. Raises ValueError for modes and methods that the plugin lacks."""
    for mode in modes:
        if mode not in plugin.methods:
            raise ValueError(f"{place}.modes: {plugin.name} cannot be measured in mode {mode!r}")
    available = list(dict.fromkeys(method for mode in modes for method in plugin.methods[mode]))
    for method in requested or ():
        _check_method(f"{place}.methods", method, plugin, available)
    return list(dict.fromkeys(requested)) if requested else available


def _check_method(place: str, method: str, plugin: type[AnyPlugin], available: Sequence[str]) -> None:
    if method not in available:
        known = ", ".join(available)
        raise ValueError(f"{place}: {plugin.name} has no method {method!r} here; known are {known}")


def _by_size(
    sizes: Sequence[int] | Mapping[str, Sequence[int]], methods: Sequence[str]
) -> list[tuple[int, str]]:
    """Return batch sizes with their methods, the smallest size first, methods in the given order."""
    sizes_of = sizes if isinstance(sizes, Mapping) else dict.fromkeys(methods, sizes)
    pairs = [(size, method) for method in methods for size in dict.fromkeys(sizes_of.get(method, []))]
    return sorted(pairs, key=lambda pair: pair[0])


def interleaved_groups(cells: Iterable[Cell], together: int) -> list[list[Cell]]:
    """Return groups of cells that take turns: `together` of an experiment, or all of one batch size."""
    groups: list[list[Cell]] = []
    for _, compared in groupby(cells, key=attrgetter(*INTERLEAVED)):
        groups.append([])
        for _, of_one_size in groupby(compared, key=attrgetter("batch_size")):
            added = list(of_one_size)
            if groups[-1] and len(groups[-1]) + len(added) > together:
                groups.append([])
            groups[-1] += added
    return groups


Filter = Mapping[str, frozenset[str]]
"""Accepted values by key."""


def read_filter(text: str) -> Filter:
    """Parse a filter such as "plugin=stack_parser,method=replay|step,batch_size=64". Raises ValueError."""
    values_of: dict[str, frozenset[str]] = {}
    for part in filter(None, text.split(",")):
        key, equals, values = part.partition("=")
        if not equals or not values or key not in KEYS:
            raise ValueError(f"{part!r}: write KEY=VALUE or KEY=VALUE|VALUE; the keys are {', '.join(KEYS)}")
        if key in values_of:
            raise ValueError(f"{part!r}: {key} is there twice; write {key}=VALUE|VALUE")
        values_of[key] = frozenset(values.split("|"))
    return values_of


def passing(cells: Sequence[CellT], conditions: Filter) -> list[CellT]:
    """Return the cells that pass. Raises ValueError if none does, or for a value that no cell has."""
    for key, values in conditions.items():
        existing = list(dict.fromkeys(str(getattr(cell, key)) for cell in cells))
        unknown = sorted(values.difference(existing))
        if unknown:
            raise ValueError(f"--only: no cell has {key}={unknown[0]}; available: {', '.join(existing)}")
    found = [cell for cell in cells if passes(cell, conditions)]
    if conditions and not found:
        raise ValueError("no cell of the config passes all of --only; try it with fewer conditions")
    return found


def passes(cell: Cell, conditions: Filter) -> bool:
    """Return whether a cell meets all conditions."""
    return all(str(getattr(cell, key)) in values for key, values in conditions.items())
