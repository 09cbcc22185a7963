"""A stage: single replays of training graphs under the profiler, and the time of all replays of an epoch.

python scripts/studies/gpu/profile_replays.py 256 1024
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.device import Visited, described, graph_class, profiled
from gpu_visit.runner import report
from gpu_visit.training import Run, batch_sizes

SHARES = 0.25, 0.5, 0.75
"""Which replays of an epoch are profiled."""


def main() -> None:
    for visited, _, size, config in batch_sizes(__doc__):
        run = Run.begin_with_graphs(config, visited.device)
        with timed_replays() as milliseconds:
            run.epoch()
        report(batch_size=size, replays=len(milliseconds), milliseconds=milliseconds)
        chosen = {int(share * len(milliseconds)) for share in SHARES}
        with profiled_replays(visited, chosen) as profiles:
            run.epoch()
        for number, described_replay in profiles.items():
            report(batch_size=size, replay=number, profile=described_replay)


@contextmanager
def timed_replays() -> Iterator[list[float]]:
    """Yields a list to which the milliseconds of each replay are added, at the end of the block."""
    pairs, replay, milliseconds = [], graph_class().replay, list[float]()

    def timed(graph: Any) -> None:
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        replay(graph)
        ended.record()
        pairs.append((began, ended))

    with mock.patch.object(graph_class(), "replay", timed):
        yield milliseconds
    torch.cuda.synchronize()
    milliseconds += [round(began.elapsed_time(ended), 4) for began, ended in pairs]


@contextmanager
def profiled_replays(visited: Visited, chosen: set[int]) -> Iterator[dict[int, dict[str, Any]]]:
    """Yields the profiles of the replays of these numbers, as they are made. The host waits for each."""
    profiles: dict[int, dict[str, Any]] = {}
    replay, numbers = graph_class().replay, iter(range(1 << 30))

    def replayed(graph: Any) -> None:
        number = next(numbers)
        if number not in chosen:
            replay(graph)
            return
        with profiled(visited) as seen:
            replay(graph)
        profiles[number] = described(seen.kernels)

    with mock.patch.object(graph_class(), "replay", replayed):
        yield profiles


if __name__ == "__main__":
    main()
