"""Knowledge distillation: what the teachers would do at each transition of the training trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.device import TooLongError, in_microbatches
from parser.batching.ragged import Ragged
from parser.config.settings import DistillationSettings, data_path
from parser.networks.loss import legal_scores
from parser.parsing.ensemble import Transition, load_each, numbered_transitions
from parser.parsing.model import Model
from parser.replay.batch import SoftTargets
from parser.replay.examples import Examples
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.transitions.inventory import Inventory
from parser.treebank.batches import batches_by_length
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import TREEBANK, Vocabulary

SETTING = "training.distillation.models"
KEPT_TRANSITIONS = 8
"""Of each step, the most probable ones. The others have little probability together: it goes to the trees."""


class Teacher(NamedTuple):
    name: str
    """For messages."""
    model: Model


def teacher_paths(distillation: DistillationSettings | None) -> tuple[Path, ...]:
    """Folders and packages of the teachers, if there are some."""
    return tuple(Path(data_path(path)) for path in distillation.models) if distillation else ()


def refuse_missing_teachers(paths: Sequence[Path]) -> None:
    """Raises ValueError if a teacher is not there."""
    for path in paths:
        if not path.exists():
            raise ValueError(f"{SETTING}: {path} is missing; it is needed, also to resume a run")


def load_teachers(paths: Sequence[Path], system: str, device: torch.device) -> list[Teacher]:
    """system: the transition system of the parser that they teach. Raises ValueError for a broken teacher, or
    one with another.

    Random numbers that are drawn later do not depend on whether teachers were loaded.
    """
    with torch.random.fork_rng(devices=()):
        teachers = [Teacher(*each) for each in load_each(paths, device)]
    for name, model in teachers:
        if (own := model.settings.system) != system:
            raise ValueError(
                f"{SETTING}: the transition system of {name} is {own}; set parser.system={own}, or choose a "
                f"teacher that is {system}"
            )
    return teachers


def soft_targets(
    teachers: Sequence[Teacher],
    trees: Sequence[Sentence],
    inventory: Inventory,
    vocabulary: Vocabulary,
    weight: float,
) -> Ragged:
    """`Examples.soft_targets` of projective trees.

    inventory, vocabulary: of the parser that is to learn. weight: `DistillationSettings.weight`. Raises
    ValueError for a teacher that knows none of its labels, or if the memory is too small for a sentence.
    """
    known = numbered_transitions(inventory, vocabulary)
    readings = [_Reading.of(teacher, known, trees) for teacher in teachers]
    try:
        return _mean_of(readings, len(known), weight)
    except TooLongError as error:
        raise ValueError(f"{SETTING}, sentence {trees[error.row].identifier}: {error}") from None


class _Reading(NamedTuple):
    """The training trees as a teacher reads them."""

    model: Model
    examples: Examples
    numbers: Tensor
    """[transitions] Of each transition of the teacher, its number in the parser that is to learn; behind the
    last one if that parser does not know it."""

    @classmethod
    def of(cls, teacher: Teacher, known: Mapping[Transition, int], trees: Sequence[Sentence]) -> _Reading:
        """known: the transitions of the parser that is to learn."""
        model, vocabulary = teacher.model, teacher.model.vocabulary
        inventory = Inventory.of(model.inventory.system, vocabulary)
        names = numbered_transitions(inventory, vocabulary)
        arcs = [name for name, makes_arc in zip(names, _make_arcs(inventory), strict=True) if makes_arc]
        if known.keys().isdisjoint(arcs):
            raise ValueError(f"{SETTING}: {teacher.name} knows no label of an arc of the training trees")
        numbers = torch.tensor([known.get(name, len(known)) for name in names], device=model.device)
        return cls(model, Examples.of(inventory, vocabulary, _named_as_known(trees, vocabulary)), numbers)

    def probabilities(self, rows: Tensor, transitions: int) -> Tensor:
        """[S, transitions] At all steps of the sentences `rows`, for the parser that is to learn."""
        batch = self.examples.batch(rows).to(self.model.device)
        scores = self.model.network.replay(batch)  # [S, transitions of the teacher]
        own = legal_scores(scores, batch, self.model.inventory).softmax(1)
        return own.new_zeros(len(own), transitions + 1).index_add_(1, self.numbers, own)[:, :-1]


def _make_arcs(inventory: Inventory) -> list[bool]:
    """For each labelled transition, whether it makes an arc with a known label."""
    kinds = inventory.system.transitions
    return [
        kinds[kind].makes_arc and known
        for kind, known in zip(inventory.kind[:-1].tolist(), inventory.known.tolist(), strict=True)
    ]


def _named_as_known(trees: Sequence[Sentence], vocabulary: Vocabulary) -> list[Sentence]:
    """Trees of treebanks that a teacher does not know are read as those of its first treebank."""
    lexicon = vocabulary.columns.get(TREEBANK)
    known = {"", *lexicon.strings} if lexicon else {tree.treebank for tree in trees}
    return [tree if tree.treebank in known else replace(tree, treebank="") for tree in trees]


@torch.inference_mode()
def _mean_of(readings: Sequence[_Reading], transitions: int, weight: float) -> Ragged:
    """The most probable transitions of all teachers together, see `Examples.soft_targets`.

    transitions: how many the parser that is to learn has. Raises TooLongError.
    """
    examples = readings[0].examples
    lengths = examples.tokens.lengths

    def of_microbatch(rows: Tensor) -> Tensor:
        """[S, 2, k] On the host."""
        first, *others = (reading.probabilities(rows, transitions) for reading in readings)
        return SoftTargets.of(sum(others, first) / len(readings), KEPT_TRANSITIONS, weight).packed().cpu()

    def of_batch(microbatches: Sequence[Tensor]) -> Tensor:
        """[S, 2, k]"""
        return torch.cat(list(map(of_microbatch, microbatches)))

    batches = batches_by_length(lengths)
    found = []
    with ProgressBar(total=len(lengths), desc="teachers", unit="sentence", **PROGRESS_BAR) as bar:
        for rows in batches:
            found.append(in_microbatches(of_batch, rows, lengths))
            bar.update(len(rows))
    order = torch.cat(batches)
    return Ragged(torch.cat(found), examples.steps.lengths[order]).select(order.argsort())
