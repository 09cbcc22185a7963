"""Measure the cost of a setting in training: steps with and without it in turns, on the same batches.

    python scripts/studies/accuracy/compare_training_steps.py CONFIG --set parser.network.arcs=null

Both trainings run in this process, one step of each at a time, so that other load on the machine affects them
equally. The script prints a line of JSON: the processor time of a step in milliseconds with the config and
with the changed config, and their ratio with its 95 % interval over the pairs of steps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from parser.evaluation.significance import Numbers, interval, resampled
from parser.system.pytorch import tune_process
from parser.training import data
from parser.training.config import read_config
from parser.training.epoch import train_epoch
from parser.training.run import new_training

FIRST = 5
"""The number of first steps that are not measured, because they fill caches."""
RESAMPLES = 2000


def seconds_of_steps(config: Path, changes: Sequence[str]) -> Iterator[float]:
    """The processor time of each step of the first epochs."""
    settings = read_config(config, changes)
    torch.manual_seed(settings.training.seed)
    model, loaded = data.load(settings, torch.device("cpu"))
    training = new_training(model, loaded, settings)
    while True:
        steps = train_epoch(loaded, settings.training, training)
        began = time.process_time()
        for _ in steps:
            yield time.process_time() - began
            began = time.process_time()
        training.progress.epoch, training.progress.batches = training.progress.epoch + 1, 0


def ratio(pairs: Numbers) -> Numbers:
    """The ratio of the summed times, [samples]. pairs: [samples, steps, 2]."""
    sums = pairs.sum(1)  # [samples, 2]
    return sums[:, 0] / sums[:, 1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path)
    arguments.add_argument("--set", dest="changes", action="append", required=True, metavar="KEY=VALUE")
    arguments.add_argument("--steps", type=int, default=200)
    given = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)  # waiting threads use processor time, too
    both = zip(seconds_of_steps(given.config, ()), seconds_of_steps(given.config, given.changes), strict=True)
    pairs = np.array(list(islice(both, FIRST, FIRST + given.steps)))  # [steps, 2]
    low, high = interval(resampled([pairs], ratio, RESAMPLES, seed=0))
    unchanged, changed = (1000 * pairs.mean(0)).tolist()
    row = {
        "milliseconds": unchanged,
        "with_changes": changed,
        "ratio": unchanged / changed,
        "interval": [low, high],
    }
    print(json.dumps(row | {"steps": given.steps}))


if __name__ == "__main__":
    main()
