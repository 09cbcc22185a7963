"""The cells of a speed run: what is measured, each by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, product
from operator import attrgetter
from typing import Any

from pydantic import ValidationError

from parser.machine import choose_device
from parser.plugins import NO_BATCHING, Mode, Plugin
from parser.settings_faults import fault_lines
from parser.speed.settings import SpeedConfig

COMPARED = ("experiment", "plugin", "mode", "device", "threads")
"""Cells that share these are compared with each other."""
KEYS = (*COMPARED, "method", "batch_size")
"""What tells the cells of a run apart."""


@dataclass(frozen=True)
class Cell:
    experiment: str
    plugin: str
    mode: Mode
    device: str
    threads: int
    method: str
    batch_size: int
    seed: int
    settings: str
    """The plugin's settings, as JSON."""

    @property
    def identity(self) -> str:
        """Equal for cells whose measurements are of the same thing."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def name(self) -> str:
        """For people."""
        device = self.device if self.threads == 1 else f"{self.device}, {self.threads} threads"
        return f"{self.experiment}: {self.method} at {self.batch_size}, {self.mode}, {device}"

    def without_batching(self) -> Cell:
        """The cell whose results this one's must equal."""
        return replace(self, method=NO_BATCHING, batch_size=1)


def cells_of(config: SpeedConfig, find: Callable[[str], type[Plugin]]) -> list[Cell]:
    """All cells of a config, compared ones side by side and in the order in which they take turns.

    find: a plugin by its name. Raises ValueError for methods, modes and devices that are not there.
    """
    devices = list(dict.fromkeys(str(choose_device(name)) for name in config.devices))
    cells = []
    for name, experiment in config.experiments.items():
        plugin = find(experiment.plugin)
        settings = settings_as_json(plugin, experiment.settings, f"experiments.{name}.settings")
        modes = list(dict.fromkeys(experiment.modes))
        chosen = methods_of(f"experiments.{name}", plugin, experiment.methods, modes)
        _check_sizes(name, experiment.batch_sizes, chosen)
        for mode, device, threads in product(modes, devices, dict.fromkeys(config.threads)):
            by_size = [
                (size, method)
                for method in chosen
                if method in plugin.methods[mode]
                for size in _sizes(experiment.batch_sizes, method)
            ]
            cells += [
                Cell(name, experiment.plugin, mode, device, threads, method, size, config.seed, settings)
                for size, method in sorted(set(by_size), key=lambda pair: (pair[0], chosen.index(pair[1])))
            ]
    return cells


def settings_as_json(plugin: type[Plugin], settings: dict[str, Any], place: str) -> str:
    """As a cell has them, the defaults too, for they may change. Raises ValueError as `validated` does."""
    return json.dumps(validated(plugin, settings, place).model_dump(mode="json"), sort_keys=True)


def validated(plugin: type[Plugin], settings: dict[str, Any], place: str = "settings") -> Any:
    """An instance of the plugin's `Settings`. Raises ValueError with a line for each that is wrong."""
    try:
        return plugin.Settings.model_validate(settings)
    except ValidationError as error:
        raise ValueError("\n".join(fault_lines(error, place))) from None


def methods_of(
    place: str, plugin: type[Plugin], asked: Sequence[str] | None, modes: Sequence[Mode]
) -> list[str]:
    """Those asked for, or all. Raises ValueError for modes and methods that the plugin has not."""
    for mode in modes:
        if mode not in plugin.methods:
            raise ValueError(f"{place}.modes: {plugin.name} can not be measured in {mode!r}")
    known = list(dict.fromkeys(method for mode in modes for method in plugin.methods[mode]))
    for method in asked or ():
        if method not in known:
            raise ValueError(f"{place}.methods: {plugin.name} has no {method!r}, but {', '.join(known)}")
    return list(dict.fromkeys(asked)) if asked else known


def _check_sizes(
    experiment: str, sizes: Sequence[int] | Mapping[str, Sequence[int]], methods: Sequence[str]
) -> None:
    for method in sizes if isinstance(sizes, Mapping) else ():
        if method not in methods:
            known = ", ".join(methods)
            raise ValueError(f"experiments.{experiment}.batch_sizes: {method!r} is not among {known}")


def _sizes(sizes: Sequence[int] | Mapping[str, Sequence[int]], method: str) -> Sequence[int]:
    return sizes.get(method, []) if isinstance(sizes, Mapping) else sizes


def sittings(cells: Iterable[Cell], together: int) -> list[list[Cell]]:
    """Cells that take turns: of those that are compared `together`, or all of one batch size."""
    found: list[list[Cell]] = []
    for _, compared in groupby(cells, key=attrgetter(*COMPARED)):
        found.append([])
        for _, of_one_size in groupby(compared, key=attrgetter("batch_size")):
            group = list(of_one_size)
            if found[-1] and len(found[-1]) + len(group) > together:
                found.append([])
            found[-1] += group
    return found


Filter = Mapping[str, frozenset[str]]
"""Key -> the values that pass."""


def read_filter(text: str) -> Filter:
    """From "plugin=stack_parser,method=replay|step,batch_size=64". Raises ValueError."""
    values_of: dict[str, frozenset[str]] = {}
    for part in filter(None, text.split(",")):
        key, equals, values = part.partition("=")
        if not equals or not values or key not in KEYS:
            raise ValueError(f"{part!r}: write KEY=VALUE or KEY=VALUE|VALUE; the keys are {', '.join(KEYS)}")
        values_of[key] = frozenset(values.split("|"))
    return values_of


def passing(cells: Sequence[Cell], wanted: Filter) -> list[Cell]:
    """Those that pass. Raises ValueError if none does, or if a value is none of any cell's."""
    for key, values in wanted.items():
        known = list(dict.fromkeys(str(getattr(cell, key)) for cell in cells))
        strange = sorted(values.difference(known))
        if strange:
            raise ValueError(f"--only: no cell has {key}={strange[0]}; there are {', '.join(known)}")
    found = [cell for cell in cells if passes(asdict(cell), wanted)]
    if not found:
        raise ValueError("no cell of the config passes all of --only; try it with fewer conditions")
    return found


def passes(cell: Mapping[str, Any], wanted: Filter) -> bool:
    """Whether a cell, or a row, by its keys, is one of those wanted."""
    return all(str(cell[key]) in values for key, values in wanted.items())
