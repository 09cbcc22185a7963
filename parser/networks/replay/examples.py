"""Sentences with known trajectories, from which batches for replay are taken, and where these are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from parser.batching.device import Packed, one_memory_error
from parser.batching.ragged import Padding, Ragged, group_size
from parser.networks.replay.batch import Batch
from parser.networks.replay.flattened import FlatTrajectories, counts_of
from parser.networks.replay.making import Selection, made
from parser.networks.replay.shapes import CompositionSizes, LevelSizes, Shape
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.system.pytorch import device_memory
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import Trajectory, known_facts, oracle_trajectory, partial_trajectory
from parser.treebank.batches import split_by_words
from parser.treebank.sentence import NO_HEAD, Sentence
from parser.treebank.tokens import Tokens, encode_heads, encode_labels, encode_tokens
from parser.treebank.vocabulary import Vocabulary

MAX_GROUP_SENTENCES = 512
"""Most sentences for which the oracle runs at the same time."""
MAX_GROUP_WORDS = 100_000
"""Most words of these sentences, including padding. This bounds the memory."""


@dataclass(frozen=True)
class Examples:
    """Sentences with their trajectories, in flat tensors."""

    inventory: Inventory
    tokens: Tokens
    gold: Ragged
    """[words, 2] Head (0 for ROOT, NO_HEAD if unknown) and label of each word."""
    trajectories: FlatTrajectories
    soft_targets: Ragged | None = None
    """[steps, 2, k] `SoftTargets.packed`; None without a teacher."""
    soft_heads: Ragged | None = None
    """[words, 2, k] `SoftTargets.packed`; None without a teacher that scores heads."""
    facts: Ragged | None = None
    """[words, 4] See `known_facts`; None if all trees are complete."""

    @classmethod
    def of(cls, inventory: Inventory, vocabulary: Vocabulary, sentences: Sequence[Sentence]) -> Examples:
        """Prepare sentences. Raises ValueError if a tree is non-projective."""
        heads, labels = encode_heads(sentences), encode_labels(vocabulary, sentences)
        return cls.prepare(inventory, encode_tokens(vocabulary, sentences, gold=True), heads, labels)

    @classmethod
    def prepare(cls, inventory: Inventory, tokens: Tokens, heads: Ragged, labels: Ragged) -> Examples:
        """Run the static oracle on all trees. If a tree is known only in part, it uses the known part.

        Raises ValueError if a tree is non-projective.
        """
        gold = Ragged(torch.stack([heads.values, labels.values], dim=1), heads.lengths)
        if not len(heads):
            return cls(inventory, tokens, gold, FlatTrajectories.none(inventory))
        facts, is_partial = known_facts(heads), _are_partial(heads)
        by_length = heads.lengths.argsort()
        orders = [by_length[~is_partial[by_length]], by_length[is_partial[by_length]]]
        parts = []
        with ProgressBar(total=len(heads.values), desc="trajectories", unit="word", **PROGRESS_BAR) as bar:
            for rows in chain(*(_groups(order, heads.lengths) for order in orders)):
                trees = heads.select(rows), labels.select(rows)
                if facts and is_partial[rows[0]]:
                    trajectory = partial_trajectory(inventory, *trees, facts.select(rows))
                else:
                    trajectory = oracle_trajectory(inventory, *trees)
                parts.append(FlatTrajectories.of(inventory, trajectory, heads.lengths[rows]))
                bar.update(int(heads.lengths[rows].sum()))
        original_order = torch.cat(orders).argsort()
        trajectories = FlatTrajectories.join(parts).select(original_order)
        return cls(inventory, tokens, gold, trajectories, facts=facts)

    @classmethod
    def of_trajectory(
        cls, inventory: Inventory, tokens: Tokens, gold: Ragged, trajectory: Trajectory
    ) -> Examples:
        """Prepare sentences with given trajectories."""
        return cls(inventory, tokens, gold, FlatTrajectories.of(inventory, trajectory, tokens.lengths))

    def with_other_trajectories(self, rows: Tensor, which: Tensor, others: Examples) -> Examples:
        """The sentences `rows` [batch], without soft targets.

        which: [batch] bool, the sentences that get the trajectories of `others`, in the same order.
        """
        original_order = torch.cat([(~which).nonzero(), which.nonzero()]).squeeze(1).argsort()
        trajectories = FlatTrajectories.join([self.trajectories.select(rows[~which]), others.trajectories])
        return Examples(
            self.inventory,
            self.tokens.select(rows),
            self.gold.select(rows),
            trajectories.select(original_order),
        )

    def are_partial(self, rows: Tensor) -> Tensor:
        """[batch] bool: whether the trees of the sentences `rows` [batch] are known only in part."""
        if self.facts is None:
            return torch.zeros(len(rows), dtype=torch.bool)
        return _are_partial(self.gold.select(rows))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def levels(self) -> Tensor:
        """[sentences] The number of levels of each sentence's stack forest, including ROOT's level."""
        return self.trajectories.stack_counts.lengths // 2

    @property
    def nbytes(self) -> int:
        """The memory of all tensors but those of tokens that are selected on the host, in bytes."""
        tokens = self.tokens.numbers if self.tokens.is_flat else None
        parts = self.gold, *self.trajectories, tokens, self.soft_targets, self.soft_heads
        return sum(part.values.nbytes + 2 * part.lengths.nbytes for part in parts if part is not None)

    def to(self, device: torch.device) -> Examples:
        """The examples on a device, where `made` makes their batches. Tokens that are selected on the host,
        see `Tokens.is_flat`, stay there."""

        def moved(ragged: Ragged) -> Ragged:
            there = Ragged(ragged.values.to(device), ragged.lengths.to(device))
            there.offsets  # noqa: B018  computed now, and not in the memory of a CUDA graph
            return there

        tokens = (
            replace(self.tokens, numbers=moved(self.tokens.numbers)) if self.tokens.is_flat else self.tokens
        )
        return Examples(
            self.inventory,
            tokens,
            moved(self.gold),
            self.trajectories.map(moved),
            None if self.soft_targets is None else moved(self.soft_targets),
            None if self.soft_heads is None else moved(self.soft_heads),
        )

    def shape(self, rows: Tensor, group: int | None = None) -> Shape:
        """The shape of the batch of the sentences `rows` [batch], which is not made. group: see `batch`."""
        flat, words = self.trajectories, self.tokens.lengths[rows]
        transitions = flat.steps.lengths[rows]
        compositions = None
        if flat.composed_counts is not None and flat.buffer_counts is not None:
            levels = _totals(flat.composed_counts, rows)
            compositions = CompositionSizes(tuple(levels), LevelSizes.of(_totals(flat.buffer_counts, rows)))
        return Shape(
            words=int(words.sum()),
            transitions=int(transitions.sum()),
            buffers=Padding.of(words + 1, group),
            histories=Padding.of(transitions, group),
            stack=LevelSizes.of(_totals(flat.stack_counts, rows)),
            compositions=compositions,
        )

    def select(self, rows: Tensor, shape: Shape, common: Shape | None = None) -> Selection:
        """What `made` needs to make a batch of the sentences `rows` [batch].

        shape: of the batch. common: a shape to which it is padded. Raises ValueError if that is too small.
        """
        tokens = None if self.tokens.is_flat else self.tokens.select(rows)
        return Selection.of(rows, self.tokens.lengths[rows], tokens, shape, common)

    def batch(self, rows: Tensor, group: int | None = None) -> Batch:
        """A batch of the sentences `rows` [batch], made where the examples are, on the host.

        group: number of sentences, sorted by length, that are padded to a common length; None for all.
        """
        if group:
            rows = rows[self.tokens.lengths[rows].argsort(descending=True, stable=True)]
        return made(self, self.select(rows, self.shape(rows, group)))


def _totals(counts: Ragged, rows: Tensor) -> list[int]:
    """The number of nodes of each class in all sentences `rows` [batch]."""
    classes = int(counts.lengths[rows].max())
    return counts_of(counts, rows, classes).sum(0).tolist()


def _are_partial(gold: Ragged) -> Tensor:
    """[sentences] bool: whether a head is unknown. gold: see `Examples.gold`; or only heads."""
    are_partial = torch.zeros(len(gold), dtype=torch.bool)
    heads = gold.values.view(len(gold.values), -1)[:, 0]
    are_partial[gold.row_of_element()[heads == NO_HEAD]] = True
    return are_partial


def _groups(order: Tensor, lengths: Tensor) -> Iterator[Tensor]:
    """Split sentences [sentences] into groups for the oracle. lengths: those of all sentences, by index."""
    for rows in order.split(MAX_GROUP_SENTENCES) if len(order) else ():
        yield from split_by_words(rows, lengths[rows].tolist(), MAX_GROUP_WORDS)


MOST_MEMORY = 1 / 8
"""The largest share of a GPU's memory that examples may take. English EWT takes 50 MB."""


class BatchSource:
    """Makes batches of examples for a device: there, if it has room for all examples, else on the host.

    A batch takes two steps, so that the first can be done ahead in a thread: `prepared` does the work of the
    host, and `made` that of the device.
    """

    def __init__(self, examples: Examples, device: torch.device):
        self.examples, self.device = examples, device
        self._there: Examples | None = None
        if device.type == "cuda" and examples.nbytes <= MOST_MEMORY * device_memory(device):
            with suppress(torch.OutOfMemoryError), one_memory_error():  # other programs may use the memory
                self._there = examples.to(device)

    def shape(self, rows: Tensor) -> Shape:
        """The shape of the batch of the sentences `rows` [batch], without padding to a common shape."""
        return self.examples.shape(rows)

    def prepared(
        self, rows: Tensor, shape: Shape, common: Shape | None = None
    ) -> Packed[Selection] | Packed[Batch]:
        """What is to be uploaded for a batch of the sentences `rows` [batch]. shape, common: see
        `Examples.select`."""
        selection = self.examples.select(rows, shape, common)
        return Packed(made(self.examples, selection)) if self._there is None else Packed(selection)

    def made(self, uploaded: Selection | Batch) -> Batch:
        """The batch on the device, without waiting. uploaded: the content of `prepared`, on the device."""
        if isinstance(uploaded, Batch):
            return uploaded
        assert self._there is not None
        return made(self._there, uploaded)

    def batch(self, rows: Tensor) -> Batch:
        """A batch of the sentences `rows` [batch] on the device."""
        if self._there is None:
            return self.examples.batch(rows, group_size(self.device)).to(self.device)
        return made(self._there, self.examples.select(rows, self.shape(rows)).to(self.device))
