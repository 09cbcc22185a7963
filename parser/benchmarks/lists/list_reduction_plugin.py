"""A recurrent network that reduces lists to digits, by asynchronous messages (Gaunt et al. 2017, section 6).

The lists of a batch have equal length. `none` trains batch by batch; `active-n` has n batches in flight.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from parser.batching.messages.parameterised import Updates
from parser.benchmarks.lists.network import ListReducer
from parser.benchmarks.lists.reductions import CLASSES, LONGEST, OPERATIONS, Reduction, make_reductions
from parser.benchmarks.message_training import (
    ACTIVE,
    METHOD_TITLES,
    METHODS,
    NEEDS_CPU,
    MessageSettings,
    MessageTraining,
    share_right,
)
from parser.benchmarks.operation_training import cut
from parser.plugins import Mode, Setup, Work

CHECKED = 12
"""Lists on which the methods must agree."""
DIGITS = 10


class ListReductionSettings(MessageSettings):
    lists: int = Field(512, gt=0)
    """The number of generated lists."""
    held_out: int = Field(0, ge=0)
    """Additional lists that are held out."""
    longest: int = Field(LONGEST, gt=0)
    """In digits."""
    hidden_size: int = Field(128, gt=0)
    replicas: int = Field(1, gt=0)
    """Replicas of the recurrent cell, on different workers."""
    update_after: int = Field(1, gt=0)
    """The number of batches whose gradients the output layer accumulates for an update by messages."""
    update_cell_after: int = Field(6, gt=0)
    """Gradients that a cell accumulates. It gets one per token of each batch, six on average."""
    update_embedding_after: int = Field(6, gt=0)
    """The same for the token embedding."""


Lists = tuple[Tensor, Tensor]
"""[lists, tokens], where the first token is the operation; and results [lists]."""


class ListReductionPlugin:
    name = "list_reduction"
    paper = "Gaunt et al. 2017, Table 1 (list reduction)"
    methods: ClassVar[dict[Mode, tuple[str, ...]]] = {"train": METHODS}
    method_titles: ClassVar[dict[str, str]] = METHOD_TITLES
    example_name: ClassVar[str] = "lists"
    Settings = ListReductionSettings

    def skip(self, setup: Setup) -> str | None:
        return None if setup.device.type == "cpu" else NEEDS_CPU

    def prepare(self, setup: Setup) -> None:
        self._setup = setup
        settings: ListReductionSettings = setup.settings
        made = make_reductions(settings.lists + settings.held_out, setup.seed, settings.longest)
        self._lists, self._held_out = made[: settings.lists], made[settings.lists :]
        torch.manual_seed(setup.seed)
        tokens = len(OPERATIONS) + DIGITS
        network = ListReducer(tokens, CLASSES, settings.hidden_size, settings.replicas)
        self._network = network
        updates = Updates(
            settings.optimizer,
            settings.update_after,
            settings.update_cell_after,
            settings.update_embedding_after,
            backward_weights=settings.backward_weights,
        )
        active = ACTIVE.get(setup.method)
        self.messages = MessageTraining(setup, network, network, updates, active)

    def batches(self) -> list[list[Lists]]:
        return cut(self._shuffled(self._setup.seed), self._setup.settings.together)

    def run(self, batch: Sequence[Lists]) -> None:
        self.messages.run(batch, training=True)

    def check(self) -> Tensor:
        return self.messages.loss_and_gradients(by_length(self._lists[:CHECKED], self._setup.batch_size))

    def learn(self, epoch: int) -> None:
        self.messages.run(self._shuffled(epoch), training=True)
        self.messages.end_epoch()

    def score(self) -> float:
        """The accuracy on held-out lists. Raises ValueError if there are none."""
        held_out = by_length(self._held_out, self._setup.batch_size)
        return share_right(self.messages.run(held_out, training=False).reports)

    def notes(self) -> dict[str, float]:
        return self.messages.notes()

    def work(self, batch: Sequence[Lists]) -> Work:
        lists = sum(len(results) for _, results in batch)
        tokens = sum(read.numel() for read, _ in batch)
        network = self._network
        cell, scores = network.cells[0].linear.weight.numel(), network.scores.weight.numel()
        # The backward pass has two products for each of the forward pass.
        return Work(lists, tokens, 6.0 * (tokens * cell + lists * scores), padding=0.0, batches=len(batch))

    def _shuffled(self, seed: int) -> list[Lists]:
        """Batches of equal length in random order, which depends only on the seed."""
        draw = random.Random(seed)
        batches = by_length(draw.sample(self._lists, len(self._lists)), self._setup.batch_size)
        return draw.sample(batches, len(batches))


def by_length(reductions: Sequence[Reduction], size: int) -> list[Lists]:
    """Batches of at most `size` lists of equal length, sorted by length."""
    of_length: dict[int, list[Reduction]] = defaultdict(list)
    for reduction in reductions:
        of_length[len(reduction.digits)].append(reduction)
    return [prepare_lists(batch) for length in sorted(of_length) for batch in cut(of_length[length], size)]


def prepare_lists(reductions: Sequence[Reduction]) -> Lists:
    """Token numbers: first the operations, then the digits."""
    tokens = [[each.operation, *(len(OPERATIONS) + digit for digit in each.digits)] for each in reductions]
    return torch.tensor(tokens), torch.tensor([each.result for each in reductions])


PLUGIN = ListReductionPlugin
