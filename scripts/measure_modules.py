"""What pooling calls of a program executor's modules can gain here: the bound for `levels` over `none`.

A residual block is timed, forward and backward, for calls of more and more images, each by itself, its memory
warm. From that follows how long the calls of a batch take if nothing but the modules cost time.

python scripts/measure_modules.py configs/speed/levels.yaml programs --batch-sizes 64 640
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from parser.batching.operations.operation import Batch
from parser.config_file import read_settings
from parser.machine import tune_process
from parser.networks.image_blocks import ApplyResidual, Grid, ResidualBlock, arranged
from parser.networks.program_executor import LABELLINGS, number_calls
from parser.plugins.program_executor import ProgramExecutorSettings, load, prepare_question
from parser.plugins.support.training import cut
from parser.speed.settings import SpeedConfig

IMAGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
ROUNDS = 5
SECONDS = 0.02
"""Of one timing, at least."""


class TimedBlock:
    """Seconds of a residual block's forward and backward pass, for calls of different numbers of images."""

    def __init__(self, grid: Grid):
        block = ResidualBlock(grid.channels)
        block.first.weight.data, block.second.weight.data = map(
            arranged, (block.first.weight, block.second.weight)
        )
        self._operation, self._grid = ApplyResidual(block, grid), grid

    def seconds(self, images: int) -> tuple[float, float]:
        """Forward, and backward with the weights' gradients."""
        given, gradient = torch.randn(2, images, self._grid.width)
        batch = Batch([given], [torch.empty_like(given)], None)

        def forward() -> None:
            with torch.no_grad():
                self._operation.forward(batch)

        def backward() -> None:
            with torch.no_grad():
                self._operation.accumulate([self._operation.backward(batch, [gradient]).kept])

        return fastest(forward), fastest(backward)


def fastest(run: Callable[[], None]) -> float:
    run()
    found = []
    for _ in range(ROUNDS):
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS:
            run()
            count += 1
        found.append((time.perf_counter() - began) / count)
    return min(found)


def call_sizes(settings: ProgramExecutorSettings, method: str, batch_size: int) -> list[int]:
    """Of all calls of an epoch's first batches."""
    questions, _ = load(settings, seed=1)
    programs = [prepare_question(question).calls for question in questions]
    batches = cut(programs, batch_size)[:8]
    return [len(which) for batch in batches for which in number_calls(batch, method).batches()]


def seconds_of_calls(sizes: Sequence[int], seconds: NDArray[np.float64]) -> float:
    """seconds: of calls of IMAGES; per image in between these, and as of the largest beyond."""
    per_image = seconds / np.array(IMAGES)
    calls = np.array(sizes)
    return float((calls * np.interp(calls, IMAGES, per_image)).sum())


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
    settings = ProgramExecutorSettings.model_validate(config.experiments[given.experiment].settings)
    block = TimedBlock(Grid(settings.channels, settings.side))
    times = np.array([block.seconds(images) for images in IMAGES])  # [calls, forward and backward]
    for images, (forward, backward) in zip(IMAGES, 1e6 * times / np.array(IMAGES)[:, None], strict=True):
        print(f"{images:4} images  forward {forward:8.1f}  backward {backward:8.1f} us each")
    for batch_size in given.batch_sizes:
        for method in LABELLINGS:
            sizes = call_sizes(settings, method, batch_size)
            gains = [
                seconds_of_calls([1] * sum(sizes), part) / seconds_of_calls(sizes, part)
                for part in (*times.T, times.sum(1))
            ]
            print(
                f"{method:8} at {batch_size:4}: {sum(sizes) / len(sizes):5.1f} images a call; modules "
                f"at most {gains[0]:.2f} times as fast as alone forward, {gains[1]:.2f} backward, "
                f"{gains[2]:.2f} both"
            )


if __name__ == "__main__":
    main()
