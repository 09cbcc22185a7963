"""Measure what the host does for a training batch: if a GPU makes the batch, and if the host makes it.

PARSER_DATA=../data python scripts/studies/batching/measure_making.py configs/ding-koehn-2019-ewt.yaml \\
    --batch-sizes 64 256 1024

Prints processor time and the bytes to be uploaded. With --keep each line is appended to a JSON Lines file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import processor_seconds

from parser.batching.device import HasTensors
from parser.networks.replay.batch import Batch
from parser.networks.replay.making import Selection
from parser.system.machine import append_stamped, tune_process
from parser.training import data
from parser.training.batches import epoch_batches
from parser.training.config import TrainingSettings, read_config
from parser.training.prepared import cache_folder

BATCHES, REPETITIONS = 40, 5


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("config", type=Path)
    options.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256, 1024])
    options.add_argument("--keep", type=Path, help="JSON Lines file")
    chosen = options.parse_args()
    tune_process()
    torch.set_num_threads(1)
    config = read_config(chosen.config)
    _, loaded = data.load(config, torch.device("cpu"), cache_folder())
    for size in chosen.batch_sizes:
        row = measured(loaded, config.training.model_copy(update={"batch_size": size}))
        made_by = row["host"]
        print(f"batches of {size}:")
        for maker, figures in made_by.items():
            microseconds, uploaded = figures["microseconds_per_sentence"], figures["bytes"]
            print(f"  made by the {maker}: {microseconds:.2f} us a sentence, {uploaded:,.0f} bytes a batch")
        if chosen.keep:
            append_stamped(
                chosen.keep, {"what": "making", "config": str(chosen.config), "batch_size": size, **row}
            )


def measured(loaded: data.TrainingData, settings: TrainingSettings) -> dict[str, Any]:
    """The measured row. host: what the host does, by what makes the batch."""
    examples, batches = loaded.train, epoch_batches(loaded, settings, 1)
    every = max(1, len(batches) // BATCHES)
    chosen = batches[::every]

    def selection(rows: Tensor) -> Selection:
        return examples.select(rows, examples.shape(rows))

    def batch(rows: Tensor) -> Batch:
        return examples.batch(rows)

    return {"batches": len(chosen), "host": {"device": _of(selection, chosen), "host": _of(batch, chosen)}}


def _of(make: Callable[[Tensor], HasTensors], batches: Sequence[Tensor]) -> dict[str, float]:
    seconds = processor_seconds(lambda: list(map(make, batches)), REPETITIONS)
    return {
        "microseconds_per_sentence": 1e6 * seconds / sum(map(len, batches)),
        "bytes": mean(_bytes(make(rows)) for rows in batches),
    }


def _bytes(whole: HasTensors) -> int:
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    whole.map(note)
    return sum(sizes)


if __name__ == "__main__":
    main()
