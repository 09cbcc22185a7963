"""The batches of an epoch along gold trajectories, prepared ahead for a GPU."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import repeat

import torch
from torch import Tensor

from parser.batching.padding import group_size
from parser.batching.transfer import Packed
from parser.config import TrainingSettings
from parser.machine import is_of_memory
from parser.optimization.graphed_gradients import PaddedBatch
from parser.replay.batch import Batch
from parser.replay.examples import Examples
from parser.replay.shape import Shape, fitting
from parser.training.data import TrainingData
from parser.training.prepared_ahead import prepared_ahead
from parser.treebank.batches import length_buckets

GoldBatch = Packed[Batch] | PaddedBatch | None
"""None is to be made when needed: without a GPU, and where memory was too small to have it ahead."""


def epoch_batches(loaded: TrainingData, settings: TrainingSettings, epoch: int) -> list[Tensor]:
    """The batches of an epoch. They depend only on the seed and the epoch's number."""
    generator = torch.Generator().manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
    by_words = settings.batch_unit == "words"
    drawn = loaded.mixture.draw(epoch, generator)
    lengths = loaded.train.tokens.lengths[drawn]
    batches = length_buckets(lengths, settings.batch_size, by_words, generator, settings.max_batch_words)
    return [drawn[batch] for batch in batches]


def gold_batches(
    examples: Examples, batches: Sequence[Tensor], device: torch.device, shapes: Sequence[Shape] = ()
) -> Generator[GoldBatch]:
    """For each batch of sentences. shapes: those to which batches are padded where one of them holds it."""
    if device.type != "cuda":
        yield from repeat(None, len(batches))
        return

    def prepare(rows: Tensor) -> GoldBatch:
        try:
            batch = examples.batch(rows, group_size(device))
            shape = fitting(shapes, Shape.of(batch)) if shapes else None
            return PaddedBatch.of(batch, shape) if shape else Packed(batch)
        except (RuntimeError, MemoryError) as error:
            if is_of_memory(error):
                return None
            raise

    yield from prepared_ahead(prepare, batches)
