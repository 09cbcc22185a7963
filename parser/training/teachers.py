"""Knowledge distillation: what the teachers would do at each transition of the training trees, and which
heads they would give to the words. The student is the parser that is trained on these targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from parser.batching.device import in_microbatches
from parser.batching.ragged import Ragged
from parser.config.data_folder import data_path
from parser.models.model import Transition, numbered_transitions
from parser.models.named_models import find_model
from parser.models.network_model import NetworkModel, load_each_network
from parser.networks.loss import legal_scores
from parser.networks.replay.batch import SoftTargets
from parser.networks.replay.examples import Examples
from parser.system.machine import TooLongError
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.system.settings import Settings
from parser.training.trees import Files
from parser.transitions.inventory import Inventory
from parser.treebank.batches import batches_by_length
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import TREEBANK, Vocabulary

SETTING = "training.distillation.models"
KEPT_TRANSITIONS = 8
"""Most probable transitions kept per step. The remaining probability, which is small, goes to the trees."""
KEPT_HEADS = 4
"""Most probable heads kept per word, likewise."""


class DistillationSettings(Settings):
    """Knowledge distillation: at each transition of the training trees, the parser learns what other parsers,
    the teachers, would do (Hinton et al. 2015; for transition-based parsers Liu et al. 2018)."""

    models: Files
    """Folders or packages of the teachers. Their probabilities are averaged. They run once, before training,
    over the gold and silver trees. They must have the parser's transition system; their networks and labels
    may differ."""
    weight: float = Field(1.0, gt=0, le=1)
    """Share of the loss that is the cross entropy with the teachers. The rest is the loss on the trees."""


def teacher_paths(distillation: DistillationSettings | None) -> tuple[Path, ...]:
    """Folders and packages of the teachers, if there are any."""
    return tuple(find_model(data_path(path)) for path in distillation.models) if distillation else ()


def refuse_missing_teachers(paths: Sequence[Path]) -> None:
    """Raises ValueError if a teacher is missing."""
    for path in paths:
        if not path.exists():
            raise ValueError(f"{SETTING}: {path} is missing; it is needed, also to resume a run")


def load_teachers(paths: Sequence[Path], system: str, device: torch.device) -> list[tuple[str, NetworkModel]]:
    """The teachers in these folders and packages, with their names in messages. system: that of the student.

    Random numbers drawn later do not depend on whether teachers were loaded. Raises ValueError for a teacher
    that is broken or has another transition system.
    """
    with torch.random.fork_rng(devices=()):
        teachers = load_each_network(paths, device)
    for name, model in teachers:
        if (other := model.settings.system) != system:
            raise ValueError(
                f"{SETTING}: the transition system of {name} is {other}; set parser.system={other}, or "
                f"choose a teacher that is {system}"
            )
    return teachers


def with_teachers(
    student: Examples,
    trees: Sequence[Sentence],
    vocabulary: Vocabulary,
    teachers: Sequence[tuple[str, NetworkModel]],
    weight: float,
) -> Examples:
    """The student's examples of projective trees with targets: the most probable transitions and heads by the
    mean probabilities of the teachers, and for heads of those that score arcs.

    vocabulary: the student's. teachers: with their names. weight: `DistillationSettings.weight`.
    Raises ValueError if a teacher knows none of the student's labels, or a sentence does not fit into memory.
    """
    known = numbered_transitions(student.inventory.system, vocabulary)
    readings = [_Reading.of(name, model, known, trees) for name, model in teachers]
    lengths = readings[0].examples.tokens.lengths

    def packed(probabilities: Sequence[Tensor], kept: int) -> Tensor:
        """[rows, 2, kept] on the host. probabilities: [rows, choices] for each teacher."""
        targets = SoftTargets.of(torch.stack(list(probabilities)).mean(0), kept, weight).packed().cpu()
        return F.pad(targets, (0, kept - targets.shape[2]))  # short sentences have few heads

    def of_microbatch(rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """[S, 2, k] and [W, 2, k]"""
        steps, heads = zip(*(reading.probabilities(rows, len(known)) for reading in readings), strict=True)
        of_heads = [each for each in heads if each is not None]
        return packed(steps, KEPT_TRANSITIONS), packed(of_heads, KEPT_HEADS) if of_heads else None

    def of_batch(microbatches: Sequence[Tensor]) -> list[tuple[Tensor, Tensor | None]]:
        return list(map(of_microbatch, microbatches))

    batches = batches_by_length(lengths)
    targets = []
    bar = ProgressBar(total=len(lengths), desc="teachers", unit="sentence", **PROGRESS_BAR)
    with bar, torch.inference_mode():
        for rows in batches:
            try:
                targets += in_microbatches(of_batch, rows, lengths)
            except TooLongError as error:
                raise ValueError(f"{SETTING}, sentence {trees[error.row].identifier}: {error}") from None
            bar.update(len(rows))
        order = torch.cat(batches)

        def in_order(parts: Sequence[Tensor], lengths: Tensor) -> Ragged:
            return Ragged(torch.cat(list(parts)), lengths[order]).select(order.argsort())

        steps, heads = zip(*targets, strict=True)
        of_heads = [each for each in heads if each is not None]
        return replace(
            student,
            soft_targets=in_order(steps, student.trajectories.steps.lengths),
            soft_heads=in_order(of_heads, lengths) if of_heads else None,
        )


class _Reading(NamedTuple):
    """The training trees as a teacher reads them."""

    model: NetworkModel
    examples: Examples
    numbers: Tensor
    """[transitions] The student's number of each transition of the teacher; the number after the last one for
    transitions that the student does not know."""

    @classmethod
    def of(
        cls, name: str, model: NetworkModel, known: Mapping[Transition, int], trees: Sequence[Sentence]
    ) -> _Reading:
        """name: of the teacher, for messages. known: the transitions of the student."""
        vocabulary = model.vocabulary
        inventory = Inventory.of(model.inventory.system, vocabulary)
        names = numbered_transitions(inventory.system, vocabulary)
        kinds = inventory.system.transitions
        labelled_arcs = [
            transition
            for transition, kind, has_known_label in zip(
                names, inventory.kind[:-1].tolist(), inventory.known.tolist(), strict=True
            )
            if kinds[kind].makes_arc and has_known_label
        ]
        if known.keys().isdisjoint(labelled_arcs):
            raise ValueError(f"{SETTING}: {name} knows no label of an arc of the training trees")
        numbers = torch.tensor([known.get(name, len(known)) for name in names], device=model.device)
        # Treebanks that the teacher does not know count as its first treebank.
        lexicon = vocabulary.columns.get(TREEBANK)
        treebanks = {"", *lexicon.strings} if lexicon else {tree.treebank for tree in trees}
        read = [tree if tree.treebank in treebanks else replace(tree, treebank="") for tree in trees]
        return cls(model, Examples.of(inventory, vocabulary, read), numbers)

    def probabilities(self, rows: Tensor, transitions: int) -> tuple[Tensor, Tensor | None]:
        """The teacher's probabilities for the sentences `rows`: of the student's transitions at all steps
        [S, transitions], and of the heads of all words [W, longest + 1]."""
        network = self.model.network
        batch = self.examples.batch(rows).to(self.model.device)
        table = network.word_table(batch.tokens)  # [W + 2, token]
        scores = network.replay_words(table, batch)  # [S, transitions of the teacher]
        shares = legal_scores(scores, batch, self.model.inventory).softmax(1)
        of_steps = shares.new_zeros(len(shares), transitions + 1).index_add_(1, self.numbers, shares)[:, :-1]
        return of_steps, network.arcs.probabilities(table, batch.tokens.lengths) if network.arcs else None
