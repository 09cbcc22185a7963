"""Knowledge distillation: what the teachers would do at each transition of the training trees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from parser.batching.microbatches import in_microbatches
from parser.config import Config, data_path
from parser.console import PROGRESS_BAR
from parser.networks.loss import legal_scores
from parser.parsing.ensemble import ModelChoice, load_models
from parser.parsing.model import Model
from parser.parsing.transition_numbers import Transition, numbered_transitions
from parser.replay.examples import Examples
from parser.replay.soft_targets import SoftTargets
from parser.transitions.inventory import Inventory
from parser.treebank.batches import batches_by_length
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Vocabulary

BATCH, BATCH_WORDS = 64, 20_000
"""Sentences of a batch, and its largest number of words, padding included."""
KEPT_TRANSITIONS = 8
"""Of each step, the most probable ones; the others have hardly any probability together."""


def teacher_paths(config: Config) -> tuple[Path, ...]:
    """Folders and packages of the teachers, if the config has some."""
    distillation = config.training.distillation
    return tuple(Path(data_path(path)) for path in distillation.models) if distillation else ()


def soft_targets(
    config: Config,
    trees: Sequence[Sentence],
    inventory: Inventory,
    vocabulary: Vocabulary,
    device: torch.device,
) -> Ragged | None:
    """`Examples.soft_targets` of projective trees; None if the config has no teachers.

    inventory, vocabulary: of the parser that is to learn. Raises ValueError for a missing or broken teacher,
    or one with another transition system.
    """
    if not (distillation := config.training.distillation):
        return None
    with torch.random.fork_rng(devices=()):  # the same numbers are drawn if the targets are in the cache
        teachers = load_models(ModelChoice(teacher_paths(config)), device).members
    if teachers[0].settings.system != config.parser.system:
        raise ValueError(
            f"training.distillation: the transition system of {distillation.models[0]} is "
            f"{teachers[0].settings.system}, not {config.parser.system}"
        )
    known = numbered_transitions(inventory, vocabulary)
    readings = [_Reading.of(teacher, known, trees) for teacher in teachers]
    return _mean_of(readings, len(known), distillation.weight)


@torch.inference_mode()
def _mean_of(readings: Sequence[_Reading], transitions: int, weight: float) -> Ragged:
    """As `soft_targets`. transitions: how many the parser that is to learn has."""
    steps, lengths = readings[0].examples.steps.lengths, readings[0].examples.tokens.lengths

    def compute(microbatches: Sequence[Tensor]) -> Tensor:
        return torch.cat([of_sentences(rows) for rows in microbatches])

    def of_sentences(rows: Tensor) -> Tensor:
        """[S, 2, k] At the steps of the sentences `rows`, on the host."""
        first, *others = (reading.probabilities(rows, transitions) for reading in readings)
        return SoftTargets.of(sum(others, first), KEPT_TRANSITIONS, weight).packed().cpu()

    found, batches = [], batches_by_length(lengths, BATCH, BATCH_WORDS)
    with tqdm(total=len(lengths), desc="teachers", unit="sentence", **PROGRESS_BAR) as bar:
        for rows in batches:
            found.append(in_microbatches(compute, rows, lengths))
            bar.update(len(rows))
    order = torch.cat(batches)
    return Ragged(torch.cat(found), steps[order]).select(order.argsort())


class _Reading(NamedTuple):
    """The training trees as a teacher reads them."""

    teacher: Model
    examples: Examples
    numbers: Tensor
    """[transitions] Of each transition of the teacher, its number in the parser that is to learn; behind the
    last one if that parser does not know it."""

    @classmethod
    def of(cls, teacher: Model, known: dict[Transition, int], trees: Sequence[Sentence]) -> _Reading:
        """known: the transitions of the parser that is to learn."""
        inventory = Inventory.of(teacher.inventory.system, teacher.vocabulary)
        names = numbered_transitions(inventory, teacher.vocabulary)
        numbers = torch.tensor([known.get(name, len(known)) for name in names], device=teacher.device)
        return cls(teacher, Examples.of(inventory, teacher.vocabulary, trees), numbers)

    def probabilities(self, rows: Tensor, transitions: int) -> Tensor:
        """[S, transitions] At all steps of the sentences `rows`, for the parser that is to learn."""
        batch = self.examples.batch(rows).to(self.teacher.device)
        scores = self.teacher.network.replay(batch)  # [S, transitions of the teacher]
        own = legal_scores(scores, batch, self.teacher.inventory).softmax(1)
        return own.new_zeros(len(own), transitions + 1).index_add_(1, self.numbers, own)[:, :-1]
