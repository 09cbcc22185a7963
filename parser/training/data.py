"""From treebank files to what training needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parser.config import Config, data_path
from parser.networks.examples import Examples
from parser.parsing.model import Model
from parser.treebank.conllu import read_treebank
from parser.treebank.embeddings import read_vectors
from parser.treebank.lifting import lifted, refuse_marks
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Vocabulary, seen_once

FORM_COLUMN = 0
"""Where `load` puts the forms among the columns of the tokens."""


@dataclass(frozen=True)
class TrainingData:
    """Treebanks, and their trees, as far as they are or were made projective, as examples for replay."""

    train_sentences: list[Sentence]
    dev_sentences: list[Sentence]
    train_trees: list[Sentence]
    """Those of `train`."""
    train: Examples
    dev: Examples
    rare_forms: Tensor
    """[forms] Which forms training has just once."""


def load(config: Config, device: torch.device) -> tuple[Model, TrainingData]:
    """Read the treebanks and build a fresh model for them.

    Raises TreebankError, FileNotFoundError, and ValueError when no training tree is projective.
    """
    train_sentences = read_treebank(data_path(config.treebank.train), config.treebank.roots)
    dev_sentences = read_treebank(data_path(config.treebank.dev), config.treebank.roots)
    refuse_marks(train_sentences, config.treebank.train)
    lifts = config.treebank.non_projective == "lift"
    projective = _projective(train_sentences, lifts)
    if not projective:
        raise ValueError(f"{config.treebank.train}: no projective tree to learn from")
    words: list[str] = []
    vectors = None
    network = config.parser.network
    if network.pretrained:
        words, vectors = read_vectors(data_path(network.pretrained))
    vocabulary = Vocabulary.build(projective, ["form", *network.tag_sizes], words)
    if not vocabulary.word_labels:
        raise ValueError(f"{config.treebank.train}: no arc between two words to learn from")
    model = Model.build(config.parser, vocabulary, device, vectors)
    inventory = model.inventory.to(torch.device("cpu"))
    train = Examples.of(inventory, vocabulary, projective)
    dev = Examples.of(inventory, vocabulary, _projective(dev_sentences, lifts))
    rare_forms = seen_once(train.tokens.values[:, FORM_COLUMN], len(vocabulary.columns["form"]))
    return model, TrainingData(train_sentences, dev_sentences, projective, train, dev, rare_forms)


def _projective(sentences: list[Sentence], lifts: bool) -> list[Sentence]:
    """Those that are projective; or if `lifts` all, made so."""
    if lifts:
        return [lifted(sentence) for sentence in sentences]
    return [sentence for sentence in sentences if is_projective(sentence.heads)]
