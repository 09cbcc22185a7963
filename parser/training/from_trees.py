"""What is learned from the trees of train at the end of training: constraints, and enhanced dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parser.config.data_folder import data_path
from parser.enhanced.graph import Edge, given_edges
from parser.enhanced.transducer import Transducer
from parser.models.learned_constraints import SETS, LearnedConstraints
from parser.system.console import counted, say
from parser.training.trees import TreebankSettings, read_training_file
from parser.treebank.conllu import stream_sentences
from parser.treebank.sentence import BLANK, NO_HEAD, Sentence

SETTING = "parser.enhanced"
LEAST_ENHANCED = 0.01
"""DEPS counts as a tree if fewer words have other edges than there."""


def can_be_read_again(settings: TreebankSettings) -> bool:
    """Whether the train files are there, and are no pipes."""
    return all(Path(data_path(path)).is_file() for path in settings.train_files)


def refuse_without_graphs(settings: TreebankSettings) -> None:
    """Raises ValueError if train has no enhanced dependencies, or what cannot be read."""
    if not can_be_read_again(settings):
        return  # another message says that a file is missing
    files = [data_path(path) for path in settings.train_files]
    with_deps = 0
    for path in files:
        with_deps += sum(any(_edges(sentence, path)) for sentence in stream_sentences(path, tree=False))
    if not with_deps:
        raise ValueError(
            f"{', '.join(files)}: no word has a value in DEPS, from which {SETTING} could learn; "
            f"--set {SETTING}=false trains without"
        )


def whole_trees(settings: TreebankSettings) -> list[Sentence]:
    """The trees of the train files, without those of which parts are unknown, and without silver ones.

    Raises what `read_training_file` raises.
    """
    trees: list[Sentence] = []
    for number, path in enumerate(settings.train_files):
        of_file = read_training_file(data_path(path), settings)
        for sentence in of_file if number else of_file[: settings.train_sentences]:
            if NO_HEAD not in sentence.heads and BLANK not in sentence.labels:
                trees.append(sentence)
    return trees


def learned_constraints(trees: Sequence[Sentence], dev: Sequence[Sentence]) -> LearnedConstraints:
    """Those of train that no tree of dev breaks."""
    learned = LearnedConstraints.learned(trees).without_broken(dev)
    pairs, orders = (sum(len(getattr(learned, name)) for name in names) for names in (SETS[:3], SETS[3:]))
    say(f"constraints learned: {pairs:,} pairs, and the order of {counted(orders, 'label')}")
    return learned


def learned_transducer(trees: Sequence[Sentence], name: str) -> Transducer:
    """name: of the file or files, for messages. Raises ValueError if the trees have no DEPS."""
    try:
        learned = Transducer.learned(trees)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if learned is None:
        raise ValueError(f"{name}: no word has a value in DEPS")
    patterns, labels = len(learned.finder.labels), len(learned.augmenter.counts)
    say(f"enhanced dependencies learned: {patterns:,} paths of added edges, {labels:,} augmented labels")
    return learned


def has_enhanced(trees: Sequence[Sentence], name: str) -> bool:
    """Whether DEPS has more than trees, from which enhanced dependencies can be learned.

    name: of the file or files, for messages. Raises ValueError for a value that cannot be read.
    """
    words = more = 0
    for tree in trees:
        for edges, head, label in zip(_edges(tree, name), tree.heads, tree.labels, strict=True):
            words += 1
            more += bool(edges) and edges != [(str(head), label)]
    return words > 0 and more >= LEAST_ENHANCED * words


def _edges(sentence: Sentence, name: str) -> list[list[Edge]]:
    try:
        return given_edges(sentence)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
