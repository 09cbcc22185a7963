"""A binary Tree-LSTM (Neubig et al. 2017), batched on the fly or by static levels.

`levels` runs all nodes of equal height together, `manual` all nodes of equal depth, written by hand in plain
PyTorch; both use the known trees and record nothing. `active-n` sends messages (Gaunt et al. 2017), with n
trees in flight. `compiled` and `vmap` use what PyTorch offers for irregular sizes today.

A file has one tree per line, with a label at every node: `(3 (2 It) (4 (2 works) (2 .)))`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from parser.batching import PRECISIONS
from parser.batching.levels import depths, heights
from parser.batching.operations.cells import Grain
from parser.config.data_folder import data_path
from parser.speed.tasks.message_training import MESSAGE_TITLES, AsynchronySettings, MessageTraining, accuracy
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
from parser.speed.tasks.tree_lstm.methods import METHODS, TreeMessages
from parser.speed.tasks.tree_lstm.network import BinaryTree, TreeLSTM
from parser.system.files import utf8_lines
from parser.system.settings import Settings

TOKEN = re.compile(r"[()]|[^() \n]+")
"""Brackets within words are escaped, and words can contain white space other than a blank."""


class LabelledTree(NamedTuple):
    """Nodes are numbered: leaves from left to right, then inner nodes, children before their parents."""

    words: list[str]
    """The words of the leaves."""
    labels: list[int]
    """The labels of all nodes."""
    left: list[int]
    """The left children of the inner nodes; right: their right children."""
    right: list[int]


def read_labelled_trees(path: Path) -> list[LabelledTree]:
    """Read the trees of a file. Raises ValueError, with the line, for anything that is not a binary tree."""
    trees = []
    for number, line in enumerate(utf8_lines(path), start=1):
        if line:
            try:
                trees.append(parse_tree(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    if not trees:
        raise ValueError(f"{path}: no trees")
    return trees


def parse_tree(text: str) -> LabelledTree:
    """Parse one tree. Raises ValueError for anything that is not a binary tree."""
    builder, open_nodes, done = _Builder(), [], False
    tokens = iter(TOKEN.findall(text))
    for token in tokens:
        if done:
            raise ValueError(f"{token!r} after the tree's end")
        if token == "(":
            label = next(tokens, "")
            if not label.isdecimal():
                raise ValueError(f"a ( must be followed by its label, a number, not by {label!r}")
            open_nodes.append(_OpenNode(int(label), []))
        elif not open_nodes:
            raise ValueError(f"{token!r} where a tree must begin with (")
        elif token == ")":
            node = builder.close(open_nodes.pop())
            done = not open_nodes
            if open_nodes:
                open_nodes[-1].children.append(node)
        else:
            open_nodes[-1].children.append(token)
    if not done:
        raise ValueError(f"{len(open_nodes)} ( without their )" if open_nodes else "no tree")
    return builder.tree()


class _OpenNode(NamedTuple):
    label: int
    children: list[str | int]
    """Words, or the numbers of closed nodes from `_Builder.close`."""


class _Builder:
    def __init__(self) -> None:
        self._words: list[str] = []
        self._word_labels: list[int] = []
        self._labels: list[int] = []
        self._children: list[tuple[int, int]] = []

    def close(self, node: _OpenNode) -> int:
        """Add the node and return its number: leaves from -1 downwards, inner nodes from 0 upwards."""
        match node.children:
            case [str(word)]:
                self._words.append(word)
                self._word_labels.append(node.label)
                return -len(self._words)
            case [int(left), int(right)]:
                self._children.append((left, right))
                self._labels.append(node.label)
                return len(self._labels) - 1
        raise ValueError(f"a node must hold a word or two nodes, not {len(node.children)} things")

    def tree(self) -> LabelledTree:
        leaves = len(self._words)
        left, right = (
            [-1 - pair[side] if pair[side] < 0 else leaves + pair[side] for pair in self._children]
            for side in (0, 1)
        )
        return LabelledTree(self._words, self._word_labels + self._labels, left, right)


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
    method_titles: ClassVar[dict[str, str]] = {**MESSAGE_TITLES, **OPERATION_TITLES, "none": "one by one"}
    example_name: ClassVar[str] = "trees"
    precisions = PRECISIONS
    Settings = TreeLSTMSettings

    def skip(self, setup: Setup[TreeLSTMSettings]) -> str | None:
        settings = setup.settings
        missing = missing_file(settings.data, settings.held_out, settings.embeddings)
        return METHODS.chosen(setup).skip(setup) or missing

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
