"""Learning enhanced dependencies from the trees and the DEPS of train, at the end of training."""

from __future__ import annotations

from pathlib import Path

from parser.config.data_folder import data_path
from parser.enhanced.graph import given_edges
from parser.enhanced.transducer import Transducer
from parser.system.console import say
from parser.training.trees import TreebankSettings, read_training_file
from parser.treebank.conllu import stream_sentences
from parser.treebank.sentence import NO_HEAD, Sentence

SETTING = "parser.enhanced"


def refuse_without_graphs(settings: TreebankSettings) -> None:
    """Raises ValueError if train has no enhanced dependencies, or what cannot be read."""
    files = [data_path(path) for path in settings.train_files]
    if not all(Path(path).is_file() for path in files):
        return  # another message says that a file is missing
    with_deps = 0
    for path in files:
        with_deps += sum(_has_edges(sentence, path) for sentence in stream_sentences(path, tree=False))
    if not with_deps:
        raise ValueError(
            f"{', '.join(files)}: no word has a value in DEPS, from which {SETTING} could learn; "
            f"--set {SETTING}=false trains without"
        )


def learned_transducer(settings: TreebankSettings) -> Transducer:
    """Raises ValueError for train files without DEPS, and what `read_training_file` raises."""
    sentences = []
    for number, path in enumerate(settings.train_files):
        of_file = read_training_file(data_path(path), settings)
        sentences += [
            sentence
            for sentence in (of_file if number else of_file[: settings.train_sentences])
            if NO_HEAD not in sentence.heads and _has_edges(sentence, path)
        ]
    learned = Transducer.learned(sentences)
    if learned is None:
        raise ValueError(f"{', '.join(settings.train_files)}: no word has a value in DEPS")
    patterns, labels = len(learned.finder.labels), len(learned.augmenter.counts)
    say(f"enhanced dependencies learned: {patterns:,} paths of added edges, {labels:,} augmented labels")
    return learned


def _has_edges(sentence: Sentence, path: str) -> bool:
    """Raises ValueError, which names the file, for a value that cannot be read."""
    try:
        return any(given_edges(sentence))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
