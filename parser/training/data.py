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
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Vocabulary, seen_once


@dataclass(frozen=True)
class TrainingData:
    """Treebanks, and their projective trees as examples for replay."""

    train_sentences: list[Sentence]
    dev_sentences: list[Sentence]
    train: Examples
    dev: Examples
    rare_forms: Tensor
    """[forms] Which forms training has just once."""


def load(config: Config, device: torch.device) -> tuple[Model, TrainingData]:
    """Read the treebanks and build a fresh model for them.

    Raises TreebankError, FileNotFoundError, and ValueError when no training tree is projective.
    """
    train_sentences = read_treebank(data_path(config.treebank.train))
    dev_sentences = read_treebank(data_path(config.treebank.dev))
    projective = [sentence for sentence in train_sentences if is_projective(sentence.heads)]
    if not projective:
        raise ValueError(f"{config.treebank.train}: no projective tree to learn from")
    words: list[str] = []
    vectors = None
    network = config.parser.network
    if network.pretrained:
        words, vectors = read_vectors(data_path(network.pretrained))
    vocabulary = Vocabulary.build(projective, ["form", *network.tag_sizes], words)
    model = Model.build(config.parser, vocabulary, device, vectors)
    train = _examples(model, projective)
    forms = train.tokens.values[:, list(vocabulary.columns).index("form")]
    return model, TrainingData(
        train_sentences,
        dev_sentences,
        train,
        _examples(model, [sentence for sentence in dev_sentences if is_projective(sentence.heads)]),
        seen_once(forms, len(vocabulary.columns["form"])),
    )


def _examples(model: Model, sentences: list[Sentence]) -> Examples:
    vocabulary = model.vocabulary
    return Examples.prepare(
        model.inventory.to(torch.device("cpu")),
        vocabulary.encode_tokens(sentences),
        vocabulary.encode_heads(sentences),
        vocabulary.encode_labels(sentences),
    )
