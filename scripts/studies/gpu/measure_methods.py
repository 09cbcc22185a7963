"""A stage: the speed of a plugin's methods at several batch sizes, with the settings of an experiment of
configs/speed/gpu.yaml.

python scripts/studies/gpu/measure_methods.py ding-koehn-2019 train step-naive,replay 1,8,64,256,1024
python scripts/studies/gpu/measure_methods.py experts-100 infer none,static 10000 --phases

`stack-parser speed` measures the same, with a process for each cell. Here all cells share one process, which
reads the data once: on a machine that is lent for minutes, starting processes would take most of them.
Methods take turns with the same batches, whose lengths are spread evenly over an epoch. Results of `check`
are compared with those of the first method.

--phases: the phases of `run` are timed twice. First nobody waits for the device, so that the host's clock
sees the launches, as in Suarez & Zhu's published code; then the host waits at both ends of each phase.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.device import Visited, visited_device
from gpu_visit.runner import report
from gpu_visit.training import few_sentences
from measuring import in_turns

from parser.commands.speed import read_config
from parser.evaluation.statistics import median_of
from parser.networks.replay.examples import Examples
from parser.speed.measuring.cell_process import PhaseClock
from parser.speed.tasks import conformance
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import AnyPlugin, Setup
from parser.speed.tasks.stack_parser import stack_parser_plugin
from parser.system.machine import is_of_memory

CONFIG = Path("configs/speed/gpu.yaml")
REHEARSED = {
    "stack_parser": [
        *("settings.treebank={treebank}", "settings.trained_batches=1"),
        *("settings.parser.network.hidden_size=8", "settings.parser.network.token_size=8"),
    ],
    "program_executor": [
        *("settings.examples=4", "settings.feature_channels=4", "settings.channels=4", "settings.side=6"),
        *("settings.projected=4", "settings.hidden=8"),
    ],
    "mixture_of_experts": ["settings.experts=3"],
}
"""Changes of an experiment in a rehearsal, by its plugin."""
CPU = torch.device("cpu")
TURNS, BATCHES = 6, 8
WAITING, LAUNCHING = "the host waits for the device", "the host only launches"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("experiment")
    options.add_argument("mode", choices=("train", "infer"))
    options.add_argument("methods")
    options.add_argument("batch_sizes")
    options.add_argument("--phases", action="store_true")
    options.add_argument("--rehearse", action="store_true")
    given = options.parse_args()
    sizes = list(map(int, given.batch_sizes.split(",")))
    with ExitStack() as stack:
        visited = stack.enter_context(visited_device(given.rehearse))
        stack.enter_context(_data_read_once())
        few = stack.enter_context(few_sentences(given.rehearse))
        of_plugin = _settings(given.experiment, few.get("train"))
        for size in [4] if given.rehearse else sizes:
            _measure_size(visited, given, of_plugin, size)


def _measure_size(visited: Visited, given: argparse.Namespace, of_plugin: tuple[str, Any], size: int) -> None:
    """Measure the methods at a batch size, and report a result for each."""
    turns, batches = (1, 1) if given.rehearse else (TURNS, BATCHES)
    cells: list[MeasuredCell] = []
    for method in given.methods.split(","):
        name = {"experiment": given.experiment, "mode": given.mode, "method": method, "batch_size": size}
        try:
            cells.append(MeasuredCell(visited, name, of_plugin, batches))
        except Exception as error:
            if not is_of_memory(error):
                raise
            report(**name, failed=str(error).splitlines()[0])
    for cell in cells:
        cell.found["differs"] = conformance.disagreement(cell.checked, cells[0].checked)
    speeds = defaultdict[str, list[float]](list)
    for of_turn in in_turns({cell.found["method"]: cell.speed for cell in cells}, turns):
        for method, speed in of_turn.items():
            speeds[method].append(speed)
    for cell in cells:
        estimate = median_of(speeds[cell.found["method"]])
        phases = {"phases_ms": cell.phases()} if given.phases else {}
        report(**cell.found, per_second=estimate.value, interval=[estimate.low, estimate.high], **phases)


def _settings(experiment: str, rehearsed: Path | None) -> tuple[str, Any]:
    """The plugin of an experiment, and its settings; small ones if the treebank of a rehearsal is given."""
    asked = read_config(CONFIG).experiments[experiment]
    if rehearsed:
        changes = [f"experiments.{experiment}.{change}" for change in REHEARSED[asked.plugin]]
        changes = [change.format(treebank=rehearsed) for change in changes]
        asked = read_config(CONFIG, changes).experiments[experiment]
    return asked.plugin, find(asked.plugin).Settings.model_validate(asked.settings)


class MeasuredCell:
    """A plugin with a method and a batch size, ready to run."""

    def __init__(self, visited: Visited, cell: dict[str, Any], of_plugin: tuple[str, Any], most: int):
        """most: batches that are run."""
        name, settings = of_plugin
        self.found = dict(cell)
        self._device, self._clock = visited.device, PhaseClock(CPU)
        names = cell["method"], cell["mode"], cell["batch_size"]
        setup = Setup(settings, *names, visited.device, 1, lambda phase: self._clock(phase))
        self._plugin: AnyPlugin = find(name)()
        began = time.perf_counter()
        self._plugin.prepare(setup)
        self.checked = conformance.numbers(self._plugin.check())
        batches = self._plugin.batches()
        count = min(most, len(batches))
        by_size = sorted(batches, key=lambda batch: self._plugin.work(batch).operations)
        self._batches = [by_size[int((index + 0.5) * len(batches) / count)] for index in range(count)]
        self._examples = sum(self._plugin.work(batch).sentences for batch in self._batches)
        self.speed()  # libraries are initialised
        self.found["prepare_seconds"] = round(time.perf_counter() - began, 2)

    def speed(self) -> float:
        """Examples per second."""
        torch.cuda.synchronize()
        began = time.perf_counter()
        for batch in self._batches:
            self._plugin.run(batch)
        torch.cuda.synchronize()
        return self._examples / (time.perf_counter() - began)

    def phases(self) -> dict[str, dict[str, float]]:
        """Milliseconds of each phase for all batches, by how they are timed."""
        by_clock = {}
        for how, waits_for in ((LAUNCHING, CPU), (WAITING, self._device)):
            self._clock = PhaseClock(waits_for)
            self._clock.on = True
            for batch in self._batches:
                self._plugin.run(batch)
                torch.cuda.synchronize()
            self._clock.on = False
            by_clock[how] = {name: round(1000 * taken, 3) for name, taken in self._clock.seconds.items()}
        return by_clock


@contextmanager
def _data_read_once() -> Iterator[None]:
    """All cells of the parser share its treebank, and the trajectories, which do not depend on the method."""
    examples: list[Examples] = []
    make = Examples.of

    def of(*arguments: Any) -> Examples:
        if not examples:
            examples.append(make(*arguments))
        return examples[0]

    read: Callable[[str], Any] = cache(stack_parser_plugin.read_treebank)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(stack_parser_plugin, "read_treebank", read))
        stack.enter_context(mock.patch.object(Examples, "of", of))
        yield


if __name__ == "__main__":
    main()
