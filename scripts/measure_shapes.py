"""Measure what it takes to train by CUDA graphs: how many shapes, for how many batches, and their padding.

PARSER_DATA=../data python scripts/measure_shapes.py configs/ud-english-ewt.yaml --batch-sizes 64 256

The shapes are those of a training run (`training.cuda_graphs`). The epochs that are measured come after those
that tell the shapes. With --keep each line is appended to a JSON Lines file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from parser.config import TrainingSettings
from parser.config_file import read_config
from parser.replay.examples import Examples
from parser.replay.shape import Shape, common_shapes, first_that_holds, shapes_of
from parser.stamp import append_stamped
from parser.training import data
from parser.training.gold_batches import epoch_batches
from parser.training.graphs import EPOCHS
from parser.training.prepared import cache_folder

MEASURED = 4
"""Epochs."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("config", type=Path)
    options.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256])
    options.add_argument("--keep", type=Path, help="JSON Lines file")
    chosen = options.parse_args()
    config = read_config(chosen.config)
    _, loaded = data.load(config, torch.device("cpu"), cache_folder())
    for size in chosen.batch_sizes:
        row = measured(loaded.train, config.training.model_copy(update={"batch_size": size}))
        print(
            f"batches of {size}: {row['shapes']} shapes for {row['share']:.1%} of the batches; "
            f"LSTMs run over {row['padding']:.1%} more rows than without"
        )
        if chosen.keep:
            append_stamped(chosen.keep, {"config": str(chosen.config), "batch_size": size, **row})


def measured(examples: Examples, settings: TrainingSettings) -> dict[str, Any]:
    """share: of the batches that have a graph; padding: what their shapes add to the rows of the LSTMs."""
    common = common_shapes(_shapes(examples, settings, range(1, EPOCHS + 1)))
    later = _shapes(examples, settings, range(EPOCHS + 1, EPOCHS + MEASURED + 1))
    found = [(shape, first_that_holds(common, shape)) for shape in later]
    pairs = [(own, shape) for own, shape in found if shape]
    rows, rows_of_shapes = (sum(shape.lstm_rows for shape in part) for part in zip(*pairs, strict=True))
    return {
        "shapes": len(common),
        "share": len(pairs) / len(found),
        "padding": rows_of_shapes / rows - 1,
        "batches": len(found),
        "epochs": MEASURED,
    }


def _shapes(examples: Examples, settings: TrainingSettings, epochs: range) -> list[Shape]:
    return [
        shape for epoch in epochs for shape in shapes_of(examples, epoch_batches(examples, settings, epoch))
    ]


if __name__ == "__main__":
    main()
