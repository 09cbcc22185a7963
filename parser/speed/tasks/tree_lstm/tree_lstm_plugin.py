"""A binary Tree-LSTM (Neubig et al. 2017), batched on the fly or by static levels.

`levels` runs all nodes of equal height together, `manual` all nodes of equal depth, written by hand in plain
PyTorch; both use the known trees and record nothing. `active-n` sends messages (Gaunt et al. 2017), with n
trees in flight. `compiled` and `vmap` use what PyTorch offers for irregular sizes today.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from parser.batching import PRECISIONS
from parser.batching.levels import depths, heights
from parser.batching.operations.cells import Grain
from parser.config.data_folder import data_path
from parser.speed.tasks.message_training import (
    MESSAGE_TITLES,
    AsynchronySettings,
    MessageTraining,
    accuracy,
)
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    OperationTraining,
    copy_vectors,
    in_batches,
    missing_file,
    shuffled,
)
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work
from parser.speed.tasks.tagged_text import UNKNOWN, numbered
from parser.speed.tasks.tree_lstm.labelled_trees import LabelledTree, read_labelled_trees
from parser.speed.tasks.tree_lstm.methods import METHODS, TreeMessages
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM
from parser.system.settings import Settings


class MadeTrees(Settings):
    """Trees of random shapes and words, with labels that depend on the words below."""

    trees: int = Field(48, gt=0)
    longest: int = Field(20, gt=0)
    """Maximum number of words in a tree."""
    vocabulary: int = Field(1000, gt=0)
    labels: int = Field(5, gt=0)


class TreeLSTMSettings(AsynchronySettings):
    data: str | None = None
    """File of labelled binary trees, one per line; ${PARSER_DATA} stands for the data folder. null: generated
    trees, see `made`."""
    made: MadeTrees = MadeTrees()
    grain: Grain = "cell"
    """Whether a cell is recorded as one operation (`cell`), or as elementary operations as in the paper
    (`operation`)."""
    embeddings: str | None = None
    """File of word vectors that initialize the words of `data`; ${PARSER_DATA} stands for the data folder.
    null: all vectors are random."""
    word_size: int = Field(128, gt=0)
    hidden_size: int = Field(256, gt=0)
    learning_rate: float = Field(1e-3, gt=0)
    held_out: str | None = None
    """File of held-out trees, in the format of `data`."""
    update_after: int = Field(1, gt=0)
    """Number of gradients that a node accumulates before it is updated, with messages
    (min_update_frequency)."""
    update_branch_after: int = Field(10, gt=0)
    """`update_after` for the branches, which get a gradient for each inner node of a tree."""


class TreeLSTMPlugin:
    name = "tree_lstm"
    paper = "Neubig et al. 2017, Table 1 (TreeLSTM), Figure 3"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = {
        **MESSAGE_TITLES,
        **OPERATION_TITLES,
        "none": "one by one",
    }
    example_name: ClassVar[str] = "trees"
    precisions = PRECISIONS
    Settings = TreeLSTMSettings

    def skip(self, setup: Setup[TreeLSTMSettings]) -> str | None:
        settings = setup.settings
        if reason := METHODS.chosen(setup).skip(setup):
            return reason
        given = filter(None, (settings.data, settings.held_out, settings.embeddings))
        return next(filter(None, (missing_file(data_path(data)) for data in given)), None)

    def prepare(self, setup: Setup[TreeLSTMSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        if settings.data:
            trees = read_labelled_trees(Path(data_path(settings.data)))
        else:
            trees = make_trees(settings.made, setup.seed)
        words = numbered(word for tree in trees for word in tree.words)
        self._trees = [prepare_tree(tree, words) for tree in trees]
        held_out = read_labelled_trees(Path(data_path(settings.held_out))) if settings.held_out else []
        self._held_out = [prepare_tree(tree, words) for tree in held_out]
        torch.manual_seed(setup.seed)
        labels = 1 + max(max(tree.labels) for tree in [*trees, *held_out])
        network = TreeLSTM(len(words) + 1, labels, settings.word_size, settings.hidden_size)
        if settings.embeddings:
            copy_vectors(network.words, words, data_path(settings.embeddings))
        self._network = network.to(setup.device)
        self._training: OperationTraining | MessageTraining = METHODS.chosen(setup).make(setup, self._network)
        if isinstance(self._training, MessageTraining):
            self.messages = self._training

    def batches(self) -> list[list[BinaryTree]]:
        return in_batches(shuffled(self._trees, self._setup.seed), self._setup.batch_size)

    def run(self, batch: Sequence[BinaryTree]) -> None:
        if isinstance(self._training, MessageTraining):
            self._training.run(batch, training=True)
        else:
            self._training.step(batch)

    def check(self) -> Tensor:
        trees = self._trees[: self._setup.checked]
        by_messages = isinstance(self._training, MessageTraining)
        return self._training.loss_and_gradients(
            trees if by_messages else in_batches(trees, self._setup.batch_size)
        )

    def gradients(self, batch: Sequence[BinaryTree]) -> Sequence[Tensor] | None:
        return self._training.gradients(batch) if isinstance(self._training, MessageTraining) else None

    def learn(self, epoch: int) -> None:
        trees = shuffled(self._trees, epoch)
        if isinstance(self._training, MessageTraining):
            self._training.run(trees, training=True)
            self._training.end_epoch()
        else:
            for batch in in_batches(trees, self._setup.batch_size):
                self._training.step(batch)

    def score(self) -> float:
        """The accuracy over the nodes of held-out trees. Raises ValueError if there are none."""
        if isinstance(self._training, MessageTraining):
            return accuracy(self._training.run(self._held_out, training=False).reports)
        model = TreeMessages(self._network)
        with torch.no_grad():
            return accuracy([model.losses(tree) for tree in self._held_out])

    def notes(self) -> dict[str, float]:
        return self._training.notes() if isinstance(self._training, MessageTraining) else {}

    def work(self, batch: Sequence[BinaryTree]) -> Work:
        return Work(
            sentences=len(batch),
            tokens=sum(len(tree.words) for tree in batch),
            # The backward pass needs two products for each product of the forward pass.
            operations=3.0 * sum(tree_operations(self._network, len(tree.words)) for tree in batch),
            padding=None if METHODS.chosen(self._setup).pads else 0.0,
        )


def prepare_tree(tree: LabelledTree, words: dict[str, int]) -> BinaryTree:
    numbers = [words.get(word, UNKNOWN) for word in tree.words]
    given = (numbers, tree.labels, tree.left, tree.right)
    leaves, labels, left, right = (np.array(part, np.int64) for part in given)
    parents = np.arange(len(leaves), len(labels))
    structure = len(labels), np.concatenate([left, right]), np.tile(parents, 2)
    return BinaryTree(leaves, labels, left, right, heights(*structure)[len(leaves) :], depths(*structure))


def make_trees(made: MadeTrees, seed: int) -> list[LabelledTree]:
    """Generate trees. A node's label is the sum of the numbers of its words, modulo the number of labels."""
    draw = random.Random(seed)
    trees = []
    for _ in range(made.trees):
        words = [draw.randrange(made.vocabulary) for _ in range(draw.randint(1, made.longest))]
        sums, left, right = list(words), [], []
        loose = list(range(len(words)))  # nodes without a parent yet, from left to right
        while len(loose) > 1:
            place = draw.randrange(len(loose) - 1)
            left.append(loose[place])
            right.append(loose[place + 1])
            loose[place : place + 2] = [len(sums)]
            sums.append(sums[left[-1]] + sums[right[-1]])
        labels = [total % made.labels for total in sums]
        trees.append(LabelledTree([f"w{word}" for word in words], labels, left, right))
    return trees


def tree_operations(network: TreeLSTM, words: int) -> float:
    """Floating-point operations of the products of a tree's forward pass."""
    hidden = network.hidden_size
    leaf = 3 * hidden * network.leaf.in_features
    other = 2 * 4 * hidden * hidden
    scores = hidden * network.scores.out_features
    return 2.0 * (words * leaf + (words - 1) * other + (2 * words - 1) * scores)


PLUGIN: type[Plugin[TreeLSTMSettings]] = TreeLSTMPlugin
