"""A stage: making batches: the time on the host, and what a training step asks of host and device.

Batches are first made alone, as fast as they come, then in training steps with CUDA graphs. The profiler
counts a step's uploads, launches, and calls in which the host waits for the device.

python scripts/studies/gpu/measure_batches.py 256 1024
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.device import Visited, described, profiled
from gpu_visit.runner import report
from gpu_visit.training import Run, batch_sizes

from parser.networks.replay.examples import BatchSource
from parser.training.data import epoch_batches
from parser.training.epoch import gold_batches

STEPS, REHEARSED_STEPS = 40, 4


def main() -> None:
    for visited, rehearse, size, config in batch_sizes(__doc__):
        run = Run.begin_with_graphs(config, visited.device)
        report(batch_size=size, milliseconds_of_a_batch_alone=_milliseconds_alone(run))
        for figures in _in_steps(visited, run, REHEARSED_STEPS if rehearse else STEPS):
            report(batch_size=size, **figures)


def _milliseconds_alone(run: Run) -> float:
    """The time of making a batch as training does ahead, while nothing else runs."""
    batches = epoch_batches(run.data, run.config.training, epoch=1)
    began = time.perf_counter()
    for _ in gold_batches(run.data.source, batches, run.training.graphs):
        pass
    torch.cuda.synchronize()
    return round(1000 * (time.perf_counter() - began) / len(batches), 4)


def _in_steps(visited: Visited, run: Run, steps: int) -> Iterator[dict[str, Any]]:
    """Yields the time of steps and of the host's part of making batches, then what the profiler saw of other
    steps."""
    on_host: list[float] = []

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                on_host.append(time.perf_counter() - began)

        return call

    steps_of_run = run.many_steps()
    torch.cuda.synchronize()
    began = time.perf_counter()
    shape, prepared = timed(BatchSource.shape), timed(BatchSource.prepared)
    with mock.patch.multiple(BatchSource, shape=shape, prepared=prepared):
        done = sum(1 for _ in islice(steps_of_run, steps))
        torch.cuda.synchronize()
    whole = time.perf_counter() - began
    yield {
        "steps": done,
        "milliseconds_of_a_step": round(1000 * whole / done, 4),
        "milliseconds_of_the_host_for_a_batch": round(1000 * sum(on_host) / done, 4),
    }
    with profiled(visited) as seen:
        done = sum(1 for _ in islice(steps_of_run, steps))
    yield {
        "profiled_steps": done,
        "of_a_step": {name: getattr(seen, name) / done for name in ("launches", "uploads", "waits")},
        "kernels": described(seen.kernels),
    }


if __name__ == "__main__":
    main()
