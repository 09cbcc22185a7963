"""The parser over BiLSTM features (Kiperwasser & Goldberg 2016), as Neubig et al. 2017 train it.

The sentences of a batch are parsed in parallel. Each step depends on the scores of the previous one, so the
graph is extended and run once per step. Batches consist of the BiLSTMs and the steps of all sentences. By
hand the BiLSTM runs without padding (`manual`), packed (`library`), or padded (`padded`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from parser.batching import PRECISIONS
from parser.batching.levels import Integers
from parser.batching.operations.cells import Grain
from parser.batching.operations.operation_graph import Graph
from parser.config.data_folder import data_path
from parser.networks.bilstm import bilstm_by_levels, bilstm_packed
from parser.speed.tasks.bilstms import bilstm_padded_together, bilstm_products
from parser.speed.tasks.feature_parser.dynamic_oracle import FEATURES, TRANSITION_KINDS, FeatureSentence
from parser.speed.tasks.feature_parser.network import FeatureParser, FeatureParserSizes, RecordedFeatureParser
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    AutogradForward,
    Forward,
    OperationTraining,
    epoch_of_sentences,
    missing_file,
    sentence_batches,
)
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, method, methods_of
from parser.speed.tasks.tagged_text import UNKNOWN, numbered
from parser.system.settings import Settings
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import Sentence

ROOT_FORM = "*root*"


TASK = "transition_parser"
METHODS = methods_of(TASK)
AnyForward: TypeAlias = Callable[[Any], Forward]


@method(TASK, "none", "depth", "agenda")
def in_graph(setup: Setup[TransitionParserSettings], network: FeatureParser) -> AnyForward:
    """Extend and run a graph in each step of the sentences."""
    recorded = RecordedFeatureParser(network, setup.settings.grain)

    def forward(batch: Sequence[FeatureSentence]) -> Forward:
        graph = Graph(setup.method, setup.device)
        losses = recorded.losses(graph, batch, setup.phase)
        with setup.phase("forward"), torch.no_grad():
            loss = graph.values(losses).sum()
        return Forward(loss, partial(graph.backward, losses))

    return forward


@method(TASK, "manual")
def by_hand(setup: Setup[TransitionParserSettings], network: FeatureParser) -> AnyForward:
    return AutogradForward(setup, partial(network.loss, run=bilstm_by_levels))


@method(TASK, "library", pads=True)
def by_library(setup: Setup[TransitionParserSettings], network: FeatureParser) -> AnyForward:
    return AutogradForward(setup, partial(network.loss, run=bilstm_packed))


@method(TASK, "padded", pads=True)
def padded(setup: Setup[TransitionParserSettings], network: FeatureParser) -> AnyForward:
    return AutogradForward(setup, partial(network.loss, run=bilstm_padded_together))


class TransitionParserSettings(Settings):
    treebank: str = "data/quickstart/dev.conllu"
    """Treebank whose projective trees are trained on. ${PARSER_DATA} stands for the data folder."""
    grain: Grain = "cell"
    """Whether a cell is recorded as one operation (`cell`), or as elementary operations as in the paper
    (`operation`)."""
    word_size: int = Field(100, gt=0)
    tag_size: int = Field(25, gt=0)
    hidden_size: int = Field(200, gt=0)
    """Size of each BiLSTM layer in each direction."""
    layers: int = Field(2, gt=0)
    middle_size: int = Field(100, gt=0)
    """Size of each of the two hidden layers: one for the kinds of transitions, one for transitions with
    labels."""
    word_dropout: float = Field(0.25, ge=0)
    """A word that occurs n times is read as unknown with probability word_dropout / (word_dropout + n). The
    choice is made once for each word of each sentence."""
    explore: float = Field(0.1, ge=0, le=1)
    """Probability of following an incorrect transition whose score is lower by less than the margin."""
    similar_lengths: bool = False
    """Whether sentences of similar lengths share a batch. Otherwise, batches are random, as in the paper."""
    learning_rate: float = Field(1e-3, gt=0)


class TransitionParser:
    name = "transition_parser"
    paper = "Neubig et al. 2017, Table 1 (Transition-Parsing)"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = OPERATION_TITLES
    precisions = PRECISIONS
    Settings = TransitionParserSettings

    def skip(self, setup: Setup[TransitionParserSettings]) -> str | None:
        return missing_file(data_path(setup.settings.treebank)) or METHODS.chosen(setup).skip(setup)

    def prepare(self, setup: Setup[TransitionParserSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        trees = [tree for tree in read_treebank(data_path(settings.treebank)) if is_projective(tree.heads)]
        sizes, self._sentences = prepare_trees(settings, trees, setup.seed)
        torch.manual_seed(setup.seed)
        self._network = FeatureParser(sizes).to(setup.device)
        forward = METHODS.chosen(setup).make(setup, self._network)
        self._training = OperationTraining(setup, self._network, forward, settings.learning_rate)

    def batches(self) -> list[list[FeatureSentence]]:
        return epoch_of_sentences(self._sentences, self._setup, self._setup.settings.similar_lengths)

    def run(self, batch: Sequence[FeatureSentence]) -> None:
        self._training.step(batch)

    def check(self) -> Tensor:
        batches = sentence_batches(self._sentences[: self._setup.checked], self._setup.batch_size)
        return self._training.loss_and_gradients(batches)

    def work(self, batch: Sequence[FeatureSentence]) -> Work:
        return Work(
            sentences=len(batch),
            tokens=sum(len(sentence.heads) for sentence in batch),
            # The backward pass needs two products for each product of the forward pass.
            operations=3.0 * sum(forward_operations(self._network.sizes, len(tree.heads)) for tree in batch),
            padding=None if METHODS.chosen(self._setup).pads else 0.0,
        )


def prepare_trees(
    settings: TransitionParserSettings, trees: Sequence[Sentence], seed: int
) -> tuple[FeatureParserSizes, list[FeatureSentence]]:
    words = numbered(form for tree in trees for form in (*tree.forms, ROOT_FORM))
    tags = numbered(tag for tree in trees for tag in (*tree.upos, ROOT_FORM))
    names = sorted({label for tree in trees for label in tree.labels})
    labels = {label: number for number, label in enumerate(names)}
    sizes = FeatureParserSizes(
        words=len(words) + 1,
        tags=len(tags) + 1,
        labels=len(labels),
        word_size=settings.word_size,
        tag_size=settings.tag_size,
        hidden_size=settings.hidden_size,
        layers=settings.layers,
        middle_size=settings.middle_size,
        explore=settings.explore,
    )
    draw = np.random.default_rng(seed % 2**64)  # seeds must not be negative
    numbers = [np.array([words[form] for form in (*tree.forms, ROOT_FORM)]) for tree in trees]
    rates = dropout_rates(np.bincount(np.concatenate(numbers)), settings.word_dropout)
    return sizes, [
        FeatureSentence(
            np.where(draw.random(len(row)) < rates[row], UNKNOWN, row).tolist(),
            [tags.get(tag, UNKNOWN) for tag in (*tree.upos, ROOT_FORM)],
            [head - 1 if head else len(tree) for head in tree.heads],
            [labels[label] for label in tree.labels],
            draw.random(2 * len(tree)),
        )
        for tree, row in zip(trees, numbers, strict=True)
    ]


def dropout_rates(counts: Integers, word_dropout: float) -> NDArray[np.float64]:
    """[words] The probability that each word is unknown. counts: [words], how often each occurs."""
    return word_dropout / (word_dropout + np.maximum(counts, 1))


def forward_operations(sizes: FeatureParserSizes, words: int) -> float:
    """Floating-point operations of the products of a forward pass, including ROOT."""
    hidden, frames = sizes.hidden_size, words + 1
    products = bilstm_products(frames, sizes.word_size + sizes.tag_size, hidden)
    products += (sizes.layers - 1) * bilstm_products(frames, 2 * hidden, hidden)
    scores = TRANSITION_KINDS + 1 + 2 * sizes.labels
    products += 2 * words * sizes.middle_size * (2 * FEATURES * 2 * hidden + scores)
    return 2.0 * products


PLUGIN: type[Plugin[TransitionParserSettings]] = TransitionParser
