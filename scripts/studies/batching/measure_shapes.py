"""Measure the needs of training by CUDA graphs: number of shapes, share of batches, and padding.

PARSER_DATA=../data python scripts/studies/batching/measure_shapes.py configs/ud-english-ewt.yaml \\
    --batch-sizes 64 256

The shapes are those of a training run (`training.cuda_graphs`). The measured epochs come after the epochs
from which the shapes are chosen. With --keep each line is appended to a JSON Lines file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from parser.networks.replay.shapes import EPOCHS, common_shapes, fitting
from parser.system.machine import append_stamped
from parser.training import data
from parser.training.batches import epoch_batches
from parser.training.config import TrainingSettings, read_config
from parser.training.prepared import cache_folder

MEASURED = 4
"""The number of measured epochs."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("config", type=Path)
    options.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256])
    options.add_argument("--keep", type=Path, help="JSON Lines file")
    chosen = options.parse_args()
    config = read_config(chosen.config)
    _, loaded = data.load(config, torch.device("cpu"), cache_folder())
    for size in chosen.batch_sizes:
        row = measured(loaded, config.training.model_copy(update={"batch_size": size}))
        print(
            f"batches of {size}: {row['shapes']} shapes for {row['share']:.1%} of the batches; "
            f"LSTMs run over {row['padding']:.1%} more rows than without"
        )
        if chosen.keep:
            row = {"what": "shapes", "config": str(chosen.config), "batch_size": size, **row}
            append_stamped(chosen.keep, row)


def measured(loaded: data.TrainingData, settings: TrainingSettings) -> dict[str, Any]:
    """The measured row. share: of batches that have a graph; padding: share of LSTM rows that it adds."""
    shapes = map(loaded.train.shape, _batches(loaded, settings, 1, EPOCHS))
    common = common_shapes(shapes, settings.max_batch_words)
    later = map(loaded.train.shape, _batches(loaded, settings, EPOCHS + 1, MEASURED))
    found = [(own, fitting(common, own)) for own in later]
    pairs = [(own.lstm_rows, shape.lstm_rows) for own, shape in found if shape]
    return {
        "shapes": len(common),
        "share": len(pairs) / len(found),
        "padding": sum(padded for _, padded in pairs) / max(1, sum(rows for rows, _ in pairs)) - 1,
        "batches": len(found),
        "epochs": MEASURED,
    }


def _batches(
    loaded: data.TrainingData, settings: TrainingSettings, first: int, count: int
) -> Iterator[Tensor]:
    """The batches of `count` epochs, beginning with epoch `first`."""
    for epoch in range(first, first + count):
        yield from epoch_batches(loaded, settings, epoch)


if __name__ == "__main__":
    main()
