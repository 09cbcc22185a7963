"""How much batching can speed up a program executor on this machine: a bound for `levels` over `none`.

Single modules are timed for increasing numbers of images, with warm caches: the forward pass, the backward
pass to the images, and the weights' gradients, which batched methods compute for all images of a module at
once. The times of all calls of a batch are then summed, without any other costs.

python scripts/studies/batching/measure_modules.py configs/speed/levels.yaml programs --batch-sizes 64 640
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))  # what scripts share

from measuring import least_seconds

from parser.batching.operations.operation import Operation, OperationBatch
from parser.benchmarks.operation_training import in_batches
from parser.benchmarks.programs.examples import (
    ProgramExecutorSettings,
    executor_sizes,
    load_questions,
    prepare_question,
)
from parser.benchmarks.programs.image_blocks import operation_of
from parser.benchmarks.programs.program_executor import (
    LABELLINGS,
    ProgramCalls,
    ProgramExecutor,
    number_calls,
)
from parser.config.file import read_settings
from parser.speed.measuring.settings import SpeedConfig
from parser.system.machine import tune_process

IMAGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PARTS = ("forward", "backward", "weights")
BATCHES = 8
"""The number of batches that represent an epoch."""


class Seconds:
    """The times of a module, for different numbers of images."""

    def __init__(self, operation: Operation, arguments: int):
        (width,) = operation.outputs
        found = [_seconds(operation, torch.randn(arguments + 1, images, width)) for images in IMAGES]
        self.per_image = np.array(found).T / np.array(IMAGES)  # [parts, numbers of images]

    def of(self, part: int, calls: Sequence[int]) -> float:
        """calls: the number of images of each. Interpolates between the measured sizes."""
        images = np.array(calls, np.int64)
        return float((images * np.interp(images, IMAGES, self.per_image[part])).sum())


def _seconds(operation: Operation, rows: torch.Tensor) -> tuple[float, float, float]:
    """rows: [arguments + 1, images, width], the inputs, and the gradient at the output."""
    *inputs, gradient = rows
    batch = OperationBatch(inputs, [torch.empty_like(gradient)], None)

    def forward() -> None:
        operation.forward(batch)

    with torch.no_grad():
        forward()
        kept = operation.backward(batch, [gradient]).kept
        return (
            least_seconds(forward),
            least_seconds(lambda: operation.backward(batch, [gradient])),
            least_seconds(lambda: operation.accumulate([kept])),
        )


class Modules(NamedTuple):
    unary: Seconds
    binary: Seconds

    @classmethod
    def timed(cls, executor: ProgramExecutor) -> Modules:
        blocks, grid = executor.blocks, executor.grid
        return cls(*(Seconds(*operation_of(block, grid)) for block in (blocks[0], blocks[-1])))

    def seconds(
        self, batches: Sequence[Sequence[ProgramCalls]], labelling: str | None, unary: int
    ) -> NDArray[np.float64]:
        """[parts] Of the calls of some batches; labelling None: each call by itself.

        unary: how many modules are, which come first.
        """
        total = np.zeros(len(PARTS))
        for batch in batches:
            numbered = number_calls(batch, labelling or LABELLINGS[0])
            images = np.bincount(numbered.module)
            calls = [(int(numbered.module[which[0]]), len(which)) for which in numbered.batches()]
            by_part = (calls, calls, list(enumerate(images)))
            for part, sized in enumerate(by_part):
                for is_binary, module in enumerate(self):
                    sizes = [size for number, size in sized if (number >= unary) == is_binary]
                    total[part] += module.of(part, sizes if labelling else [1] * sum(sizes))
        return total


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
    settings = ProgramExecutorSettings.model_validate(config.experiments[given.experiment].settings)
    questions, _ = load_questions(settings, seed=config.seed)
    programs = [prepare_question(question).calls for question in questions]
    executor = ProgramExecutor(executor_sizes(settings)).arranged_for(torch.device("cpu"))
    modules = Modules.timed(executor)
    for name, module in zip(Modules._fields, modules, strict=True):
        for images, each in zip(IMAGES, 1e6 * module.per_image.T, strict=True):
            times = "  ".join(f"{part} {time:8.1f}" for part, time in zip(PARTS, each, strict=True))
            print(f"{name:6} {images:4} images  {times} us each")
    for size in given.batch_sizes:
        batches = in_batches(programs, size)[:BATCHES]
        unbatched = modules.seconds(batches, None, executor.sizes.unary)
        for labelling in LABELLINGS:
            together = modules.seconds(batches, labelling, executor.sizes.unary)
            forward, backward = unbatched[0] / together[0], unbatched[1:].sum() / together[1:].sum()
            print(
                f"{labelling:8} at {size:4}: modules about {forward:.2f} times as fast as alone forward, "
                f"{backward:.2f} backward, {unbatched.sum() / together.sum():.2f} both"
            )


if __name__ == "__main__":
    main()
