"""Learning enhanced dependencies from the trees and the DEPS of train, at the end of training."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from parser.config.data_folder import data_path
from parser.enhanced.graph import given_edges
from parser.enhanced.transducer import Transducer
from parser.system.console import say
from parser.training.config import Config
from parser.training.trees import TreebankSettings, read_training_file
from parser.treebank.conllu import stream_sentences
from parser.treebank.sentence import NO_HEAD

SETTING = "parser.enhanced"


def refuse_without_graphs(config: Config) -> None:
    """Raises ValueError if enhanced dependencies are wanted, and train has none, or what cannot be read.

    Called before any work.
    """
    if not config.parser.enhanced:
        return
    files = [data_path(path) for path in config.treebank.train_files]
    if not all(Path(path).is_file() for path in files):
        return  # another message says that a file is missing
    with_deps = 0
    for path in files:
        with_deps += sum(any(given_edges(sentence)) for sentence in stream_sentences(path, tree=False))
    if not with_deps:
        raise ValueError(
            f"{', '.join(files)}: no word has a value in DEPS, from which {SETTING} could learn; "
            f"--set {SETTING}=false trains without"
        )


def learned_transducer(settings: TreebankSettings) -> Transducer:
    """Raises ValueError for train files without DEPS, and what `read_training_file` raises."""
    first, *others = (read_training_file(data_path(path), settings) for path in settings.train_files)
    sentences = chain(first[: settings.train_sentences], *others)
    learned = Transducer.learned(sentence for sentence in sentences if NO_HEAD not in sentence.heads)
    if learned is None:
        raise ValueError(f"{', '.join(settings.train_files)}: no word has a value in DEPS")
    patterns, labels = len(learned.finder.labels), len(learned.augmenter.counts)
    say(f"enhanced dependencies learned: {patterns:,} paths of added edges, {labels:,} augmented labels")
    return learned
