"""Measure the batches of a training run on a GPU: what CUDA graphs need, and what is left for the host.

PARSER_DATA=../data python scripts/studies/batching/measure_training_batches.py shapes \\
    configs/ud-english-ewt.yaml --batch-sizes 64 256
PARSER_DATA=../data python scripts/studies/batching/measure_training_batches.py making \\
    configs/ding-koehn-2019-ewt.yaml --batch-sizes 64 256 1024

shapes: number of shapes of `training.cuda_graphs`, share of batches that have one, and padding. The measured
epochs come after those from which the shapes are chosen.
making: processor time of the host, and bytes to be uploaded, if a GPU makes the batch and if the host does.

With --keep a row for each batch size is appended to a JSON Lines file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import processor_seconds

from parser.batching.device import HasTensors
from parser.networks.replay.making import Selection
from parser.networks.replay.shapes import EPOCHS, common_shapes, fitting
from parser.system.provenance import append_stamped
from parser.system.pytorch import tune_process
from parser.training import data
from parser.training.config import TrainingSettings, read_config
from parser.training.data import epoch_batches
from parser.training.prepared import cache_folder

MEASURED_EPOCHS = 4
"""Epochs whose batches are given shapes."""
BATCHES, REPETITIONS = 40, 5
"""Batches that are made, and how often."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("what", choices=("shapes", "making"))
    options.add_argument("config", type=Path)
    options.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256])
    options.add_argument("--keep", type=Path, help="JSON Lines file")
    given = options.parse_args()
    tune_process()
    torch.set_num_threads(1)
    config = read_config(given.config)
    _, loaded = data.load(config, torch.device("cpu"), cache_folder())
    measure = shapes if given.what == "shapes" else making
    for size in given.batch_sizes:
        figures = measure(loaded, config.training.model_copy(update={"batch_size": size}))
        print(f"batches of {size}: {figures}")
        if given.keep:
            row = {"what": given.what, "config": str(given.config), "batch_size": size, **figures}
            append_stamped(given.keep, row)


def shapes(loaded: data.TrainingData, settings: TrainingSettings) -> dict[str, Any]:
    """share: of batches that have a graph; padding: share of LSTM rows that it adds."""

    def batches(first: int, count: int) -> Iterator[Tensor]:
        """The batches of `count` epochs, beginning with epoch `first`."""
        for epoch in range(first, first + count):
            yield from epoch_batches(loaded, settings, epoch)

    common = common_shapes(map(loaded.train.shape, batches(1, EPOCHS)), settings.max_batch_words)
    later = list(map(loaded.train.shape, batches(EPOCHS + 1, MEASURED_EPOCHS)))
    fits = [(shape, fitting(common, shape)) for shape in later]
    rows = [(shape.lstm_rows, padded.lstm_rows) for shape, padded in fits if padded]
    return {
        "shapes": len(common),
        "share": len(rows) / len(later),
        "padding": sum(padded for _, padded in rows) / max(1, sum(alone for alone, _ in rows)) - 1,
        "batches": len(later),
        "epochs": MEASURED_EPOCHS,
    }


def making(loaded: data.TrainingData, settings: TrainingSettings) -> dict[str, Any]:
    """host: what the host does, by what makes the batch."""
    examples, batches = loaded.train, epoch_batches(loaded, settings, 1)
    chosen = batches[:: max(1, len(batches) // BATCHES)]

    def selection(rows: Tensor) -> Selection:
        return examples.select(rows, examples.shape(rows))

    def figures(make: Callable[[Tensor], HasTensors]) -> dict[str, float]:
        seconds = processor_seconds(lambda: list(map(make, chosen)), REPETITIONS)
        return {
            "microseconds_per_sentence": 1e6 * seconds / sum(map(len, chosen)),
            "bytes": mean(_bytes(make(rows)) for rows in chosen),
        }

    return {"batches": len(chosen), "host": {"device": figures(selection), "host": figures(examples.batch)}}


def _bytes(whole: HasTensors) -> int:
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    whole.map(note)
    return sum(sizes)


if __name__ == "__main__":
    main()
