"""Measure how much batching can speed up modules here: a bound for `levels` and `static` over `none`.

Modules of a program executor are timed for increasing numbers of images, with warm caches: the forward pass,
the backward pass to the images, and the weights' gradients, which batched methods compute for all images of a
module at once. The times of all calls of a batch are then summed, without any other costs. Experts are timed
forward, for increasing numbers of rows.

Next to each time, the script prints the speed of the forward pass as a share of that of large matrix
products: a single module that already reaches this speed cannot gain from batching. All are timed in turns;
the least processor times count.

python scripts/studies/batching/measure_modules.py configs/speed/levels.yaml programs --batch-sizes 64 640
python scripts/studies/batching/measure_modules.py configs/speed/levels.yaml experts-100 --batch-sizes 10000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns, large_products, processor_seconds

from parser.batching.groups import Groups, Runs
from parser.batching.operations.operation import Operation, OperationBatch, ParameterGradients
from parser.config.file import read_settings
from parser.speed.measuring.cells import SpeedConfig
from parser.speed.tasks.experts.methods import CalledExperts, CallsByRun
from parser.speed.tasks.experts.mixture_of_experts_plugin import MixtureOfExperts, MixtureOfExpertsSettings
from parser.speed.tasks.operation_training import in_batches
from parser.speed.tasks.programs.examples import ProgramExecutorSettings, load_questions, prepare_question
from parser.speed.tasks.programs.network import (
    LABELLINGS,
    ExecutorSizes,
    ProgramCalls,
    ProgramExecutor,
    number_calls,
    operation_of,
)
from parser.system.pytorch import tune_process

IMAGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
ROWS = (1, 10, 100, 1000, 10000)
AT_ONCE = {"images": 32, "rows": 1024}
"""The approximate least number of images or rows that are timed at once."""
PARTS = ("forward", "backward", "weights")
BATCHES = 8
"""The number of batches that represent an epoch."""
TURNS = 5
Call = Callable[[], object]


class Module(NamedTuple):
    calls: Mapping[int, Sequence[Call]]
    """Number of images or rows -> the timed calls: the parts of a pass."""
    modules: Mapping[int, int]
    """Number of images or rows -> how often a call runs a module, each time with that number."""
    operations: float
    """Operations in the forward pass of one image or row."""


class Timed(NamedTuple):
    """Seconds for each image or row."""

    sizes: Sequence[int]
    """Numbers of images or rows."""
    per_one: NDArray[np.float64]
    """[parts, sizes]"""

    def of(self, part: int, calls: Sequence[int]) -> float:
        """Seconds of a part in these calls, interpolated between measured sizes. calls: images in each."""
        images = np.array(calls, np.int64)
        return float((images * np.interp(images, self.sizes, self.per_one[part])).sum())


def timed(modules: Mapping[str, Module], unit: str) -> dict[str, Timed]:
    """Time all modules in turns, and print their times and speeds. unit: a key of `AT_ONCE`."""
    work = {
        f"{name} {size}": partial(_seconds, calls, size * module.modules[size], AT_ONCE[unit])
        for name, module in modules.items()
        for size, calls in module.calls.items()
    }
    large = large_products()
    turns = [(found, large()) for found in in_turns(work, TURNS)]
    fastest = max(speed for _, speed in turns)
    results = {}
    for name, module in modules.items():
        found = [[seconds[f"{name} {size}"] for size in module.calls] for seconds, _ in turns]
        own = np.array(found).min(0).T  # [parts, sizes]
        results[name] = Timed(list(module.calls), own)
        for size, each in zip(module.calls, own.T, strict=True):
            times = "  ".join(f"{part} {1e6 * time:8.1f}" for part, time in zip(PARTS, each, strict=False))
            share = module.operations / each[0] / fastest
            print(f"{name:6} {size:5} {unit}  {times} us each; forward {share:.3f} of large products")
    return results


def _seconds(calls: Sequence[Call], times: int, at_once: int) -> list[float]:
    """Seconds of each part for a single image or row. times: number of images or rows in a call."""
    return [processor_seconds(call, -(-at_once // times)) / times for call in calls]


def modules_of(executor: ProgramExecutor) -> dict[str, Module]:
    """A module with one image as input, and a module with two."""
    blocks = {"unary": executor.blocks[0], "binary": executor.blocks[-1]}
    made = {name: operation_of(block, executor.grid) for name, block in blocks.items()}
    return {
        name: Module(
            {images: _parts(operation, arguments, images) for images in IMAGES},
            dict.fromkeys(IMAGES, 1),
            operations_of(executor.sizes, arguments),
        )
        for name, (operation, arguments) in made.items()
    }


def _parts(operation: Operation, arguments: int, images: int) -> list[Call]:
    """The three passes of a module for this number of images."""
    (width,) = operation.outputs
    *inputs, gradient = torch.randn(arguments + 1, images, width)
    batch = OperationBatch(inputs, [torch.empty_like(gradient)], None)
    operation.forward(batch)
    kept = operation.backward(batch, [gradient]).kept
    return [
        lambda: operation.forward(batch),
        lambda: operation.backward(batch, [gradient]),
        lambda: operation.accumulate([kept], ParameterGradients()),
    ]


def operations_of(sizes: ExecutorSizes, arguments: int) -> float:
    """Operations of a module's convolutions: two of 3 x 3, and one of 1 x 1 that joins two images."""
    of_weight = sizes.channels**2 * sizes.side**2
    return 2.0 * of_weight * (2 * 9 + (2 if arguments == 2 else 0))


def seconds_of_batches(
    modules: Sequence[Timed], batches: Sequence[Sequence[ProgramCalls]], labelling: str | None, unary: int
) -> NDArray[np.float64]:
    """[parts] Seconds of all calls in some batches.

    modules: unary and binary. labelling: None for single calls. unary: number of unary modules (the first).
    """
    total = np.zeros(len(PARTS))
    for batch in batches:
        numbered = number_calls(batch, labelling or LABELLINGS[0])
        images = np.bincount(numbered.module)
        calls = [(int(numbered.module[which[0]]), len(which)) for which in numbered.batches()]
        by_part = (calls, calls, list(enumerate(images)))
        for part, sized in enumerate(by_part):
            for is_binary, module in enumerate(modules):
                sizes = [size for number, size in sized if (number >= unary) == is_binary]
                total[part] += module.of(part, sizes if labelling else [1] * sum(sizes))
    return total


def measure_programs(settings: ProgramExecutorSettings, batch_sizes: Sequence[int], seed: int) -> None:
    questions, _ = load_questions(settings, seed=seed)
    programs = [prepare_question(question).calls for question in questions]
    executor = ProgramExecutor(settings.sizes()).arranged_for(torch.device("cpu"))
    modules = list(timed(modules_of(executor), "images").values())
    for size in batch_sizes:
        batches = in_batches(programs, size)[:BATCHES]
        unbatched = seconds_of_batches(modules, batches, None, executor.sizes.unary)
        for labelling in LABELLINGS:
            together = seconds_of_batches(modules, batches, labelling, executor.sizes.unary)
            forward, backward = unbatched[0] / together[0], unbatched[1:].sum() / together[1:].sum()
            print(
                f"{labelling:8} at {size:4}: modules about {forward:.2f} times as fast as alone forward, "
                f"{backward:.2f} backward, {unbatched.sum() / together.sum():.2f} both"
            )


def measure_experts(settings: MixtureOfExpertsSettings, batch_sizes: Sequence[int]) -> None:
    experts = CalledExperts(settings.sizes(), lambda expert: CallsByRun(Runs.one_by_one(expert), 1))
    called = {rows: max(1, AT_ONCE["rows"] // rows) for rows in ROWS}
    calls = {rows: [_expert_call(experts, number, rows)] for rows, number in called.items()}
    operations = 2.0 * (experts.first[0].numel() + experts.second[0].numel())
    [module] = timed({"expert": Module(calls, called, operations)}, "rows").values()
    for size in batch_sizes:
        rows = max(1, size * settings.chosen // settings.experts)
        gain = rows * module.of(0, [1]) / module.of(0, [rows])
        print(f"{settings.experts} experts at {size}: rows about {gain:.2f} times as fast as alone")


def _expert_call(experts: CalledExperts, number: int, rows: int) -> Call:
    """The forward pass of `number` calls with `rows` rows each, of all experts in turn.

    Single rows are called as by `none`, others as by `static`.
    """
    in_turn = (torch.arange(number) % experts.sizes.experts).tolist()
    groups = None if rows == 1 else Groups.of(torch.zeros(number * rows, dtype=torch.int64), 1)
    calls = CallsByRun(Runs(in_turn, [rows] * number), 1, groups)
    inputs: Tensor = torch.randn(number * rows, experts.sizes.inputs)
    return lambda: calls.forward(inputs, experts.stacks)


@torch.no_grad()
def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("config", type=Path)
    arguments.add_argument("experiment")
    arguments.add_argument("--batch-sizes", type=int, nargs="+", default=[8, 64, 640])
    given = arguments.parse_args()
    torch.set_num_threads(1)
    tune_process()
    config = read_settings(given.config, SpeedConfig)
    if given.experiment not in config.experiments:
        known = ", ".join(config.experiments)
        arguments.error(f"{given.config} has no experiment {given.experiment!r}, but {known}")
    experiment = config.experiments[given.experiment]
    if experiment.plugin == MixtureOfExperts.name:
        measure_experts(MixtureOfExpertsSettings.model_validate(experiment.settings), given.batch_sizes)
    else:
        settings = ProgramExecutorSettings.model_validate(experiment.settings)
        measure_programs(settings, given.batch_sizes, config.seed)


if __name__ == "__main__":
    main()
