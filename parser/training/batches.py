"""The batches of training: which sentences each epoch draws for each of its batches, and their trajectories.

A batch follows gold trajectories, or trajectories that the parser itself chooses: during exploration, and for
trees that are only partly known.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from parser.batching.device import Packed
from parser.batching.ragged import group_size
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import Examples
from parser.networks.replay.making import Selection
from parser.networks.stepping.exploration import ExplorationSettings, explore
from parser.training.config import TrainingSettings
from parser.training.data import TrainingData
from parser.training.training_step import TrainingStep
from parser.treebank.batches import length_buckets


def epoch_batches(training_data: TrainingData, settings: TrainingSettings, epoch: int) -> list[Tensor]:
    """The numbers of the sentences of each batch [batch]. They depend only on the seed and the epoch."""
    generator = torch.Generator().manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
    by_words = settings.batch_unit == "words"
    drawn = training_data.mixture.draw(epoch, generator)
    lengths = training_data.train.tokens.lengths[drawn]
    batches = length_buckets(lengths, settings.batch_size, by_words, generator, settings.max_batch_words)
    return [drawn[batch] for batch in batches]


def training_batch(
    step: TrainingStep,
    training_data: TrainingData,
    rows: Tensor,
    exploration: ExplorationSettings | None = None,
    prepared: Packed[Selection] | Packed[Batch] | None = None,
) -> Batch:
    """A batch of training sentences, on the device of the network.

    rows: [batch] numbers of the sentences. exploration: None for gold trajectories, or for partly known trees
    the most probable correct ones. prepared: the gold trajectories, if they were prepared ahead.
    """
    examples, source = training_data.train, training_data.source
    explores = torch.ones_like(rows, dtype=torch.bool) if exploration else examples.are_partial(rows)
    if explores.any():
        longest_first = examples.tokens.lengths[rows].argsort(descending=True, stable=True)
        rows, explores = rows[longest_first], explores[longest_first]
        explored = _explored(step, examples, rows[explores], exploration)
        examples = examples.with_other_trajectories(rows, explores, explored)
        batch = examples.batch(torch.arange(len(rows)), group_size(step.device)).to(step.device)
    elif prepared:
        batch = source.made(prepared.to(step.device))
    else:
        batch = source.batch(rows)
    return replace(batch, tokens=training_data.word_dropout(batch.tokens))


def _explored(
    step: TrainingStep, examples: Examples, rows: Tensor, exploration: ExplorationSettings | None
) -> Examples:
    """Examples of the sentences `rows` [batch] along trajectories that the parser chooses."""
    tokens, gold = examples.tokens.select(rows), examples.gold.select(rows)
    facts = examples.facts.select(rows) if examples.facts else None
    trajectory = explore(step.network, step.inventory, tokens, gold, exploration, facts)
    return Examples.of_trajectory(examples.inventory, tokens, gold, trajectory.to(torch.device("cpu")))
