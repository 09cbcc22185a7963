"""From treebank files to a fresh model and its training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from parser.config import Config, data_path
from parser.parsing.input_columns import column_shares
from parser.parsing.model import Model, system_of
from parser.replay.examples import Examples
from parser.training.initial_model import copy_weights, freeze, load_initial
from parser.training.prepared import Prepared, load_prepared, place_of, save_prepared
from parser.training.size import refuse_too_large
from parser.training.word_dropout import WordDropout
from parser.transitions.inventory import Inventory
from parser.treebank.conllu import read_treebank
from parser.treebank.embeddings import read_vectors
from parser.treebank.projectivity import is_projective
from parser.treebank.pseudo_projective import projectivized
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import PRETRAINED, Vocabulary


@dataclass(frozen=True)
class TrainingData:
    prepared: Prepared
    dev_sentences: list[Sentence]
    word_dropout: WordDropout

    @property
    def train(self) -> Examples:
        return self.prepared.train

    @property
    def dev(self) -> Examples:
        return self.prepared.dev


def load(config: Config, device: torch.device, cache: Path | None = None) -> tuple[Model, TrainingData]:
    """Read the treebanks and build a fresh model for them.

    cache: folder for preprocessed treebanks. Raises TreebankError, FileNotFoundError, and ValueError when no
    training tree is left or the network does not fit into memory.
    """
    initial = load_initial(config)
    kept = place_of(config, cache) if cache else None
    dev_sentences = read_treebank(data_path(config.treebank.dev), config.treebank.roots)
    prepared = load_prepared(config, kept) if kept else None
    if prepared is None:
        prepared = _prepare(config, dev_sentences, initial)
        if kept:
            save_prepared(prepared, kept)
    vector_size = 0 if prepared.vectors is None else prepared.vectors.shape[1]
    refuse_too_large(config.parser, prepared.vocabulary, vector_size, device)
    model = replace(
        Model.build(config.parser, prepared.vocabulary, device, prepared.vectors),
        dev_shares=column_shares(prepared.vocabulary, config.parser.network.read_columns, dev_sentences),
    )
    if initial:
        copy_weights(initial, model)
    freeze(model.network, config.training.frozen)
    word_dropout = WordDropout(
        prepared.vocabulary,
        prepared.train.tokens,
        config.training,
        device,
    )
    return model, TrainingData(prepared, dev_sentences, word_dropout)


def training_trees(config: Config) -> list[Sentence]:
    """The trees of `TrainingData.train`, in the same order."""
    return _projective(_read_training(config), config.treebank.non_projective == "lift")


def _read_training(config: Config) -> list[Sentence]:
    sentences = read_treebank(data_path(config.treebank.train), config.treebank.roots)
    return sentences[: config.treebank.train_sentences]


def _prepare(config: Config, dev_sentences: list[Sentence], initial: Model | None) -> Prepared:
    path, lifts = config.treebank.train, config.treebank.non_projective == "lift"
    sentences = _read_training(config)
    trees = _projective(sentences, lifts)
    if not trees:
        raise ValueError(f"{path}: no projective tree to learn from")
    words, vectors = _pretrained(config, initial)
    network = config.parser.network
    vocabulary = Vocabulary.build(trees, network.columns, words, network.fold_case, network.tags.predict)
    if initial:
        vocabulary = initial.vocabulary.extended(vocabulary)
    if not vocabulary.word_labels:
        raise ValueError(f"{path}: no arc between two words to learn from")
    inventory = Inventory.of(system_of(config.parser), vocabulary)
    return Prepared(
        vocabulary=vocabulary,
        vectors=vectors,
        train=Examples.of(inventory, vocabulary, trees),
        dev=Examples.of(inventory, vocabulary, _projective(dev_sentences, lifts)),
        crossing=sum(not is_projective(sentence.heads) for sentence in sentences),
    )


def _pretrained(config: Config, initial: Model | None) -> tuple[Sequence[str], Tensor | None]:
    """The words with pretrained vectors, and these [words, size]; those of the initial model, if there is
    one.
    """
    if initial is None:
        path = config.parser.network.pretrained
        return read_vectors(data_path(path)) if path else ((), None)
    if PRETRAINED not in initial.vocabulary.columns:
        return (), None
    [weight] = initial.network.tokens.pretrained_weights()
    return initial.vocabulary.columns[PRETRAINED].strings, weight.detach()[1:]


def _projective(sentences: list[Sentence], lifts: bool) -> list[Sentence]:
    """All sentences, lifted where needed, if `lifts`; else the projective ones."""
    if lifts:
        return [projectivized(sentence) for sentence in sentences]
    return [sentence for sentence in sentences if is_projective(sentence.heads)]
