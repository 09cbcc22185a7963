"""A BiLSTM tagger (Neubig et al. 2017), batched on the fly, by hand, or by `nn.LSTM`.

`manual` runs all sentences of a batch together, step by step, without padding. `manual-depth` and
`manual-agenda` record the same steps in a graph, in which batching by depth or by agenda finds further
batches, such as the outputs of both directions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from parser.batching.operations.graph import METHODS
from parser.batching.operations.lstm import Grain
from parser.batching.precision import PRECISIONS
from parser.benchmarks.operation_training import (
    METHOD_TITLES,
    AutogradForward,
    Forward,
    GraphForward,
    OperationTraining,
    missing,
    sentence_batches,
    shuffled,
)
from parser.benchmarks.tagged_text import TaggedSentence, TaggedWord, TagVocabulary, read_tagged_text
from parser.benchmarks.taggers.network import RecordedTagger, Tagger, TaggerSizes
from parser.config import data_path
from parser.plugins import Mode, Setup, Work
from parser.settings import Settings

MANUAL_THEN = {"manual-depth": "depth", "manual-agenda": "agenda"}
"""How the graph of operations that were batched by hand is batched further, by method."""
CHECKED = 6
"""Sentences on which the methods must agree."""


class MadeSentences(Settings):
    """Sentences of random words, whose labels depend on the word and the one before it."""

    sentences: int = Field(48, gt=0)
    shortest: int = Field(3, gt=0)
    longest: int = Field(20, gt=0)
    vocabulary: int = Field(1000, gt=0)
    labels: int = Field(10, gt=0)


class BiLSTMTaggerSettings(Settings):
    data: str | None = None
    """Sentences of `word|label`, one a line; ${PARSER_DATA} stands for the data folder. null: `made`."""
    made: MadeSentences = MadeSentences()
    characters: bool = False
    """Whether rare words are read by their characters."""
    rare: int = 5
    """Words that occur less often are unknown."""
    grain: Grain = "cell"
    """Whether a cell is recorded as one operation, or as elementary operations as in the paper."""
    word_size: int = Field(128, gt=0)
    hidden_size: int = Field(256, gt=0)
    """Per direction."""
    layers: int = Field(1, gt=0)
    middle_size: int = Field(32, ge=0)
    """Of the layer between the BiLSTM and the labels; 0 for none."""
    character_size: int = Field(64, gt=0)
    learning_rate: float = Field(1e-3, gt=0)


class BiLSTMTagger:
    name = "bilstm_tagger"
    paper = "Neubig et al. 2017, Table 1 (BiLSTM), Figure 2"
    methods: ClassVar[dict[Mode, tuple[str, ...]]] = {"train": (*METHODS, "manual", *MANUAL_THEN, "library")}
    method_titles: ClassVar[dict[str, str]] = {
        **METHOD_TITLES,
        **{method: f"batched by hand, then by {further}" for method, further in MANUAL_THEN.items()},
    }
    precisions = PRECISIONS
    Settings: ClassVar[type[BiLSTMTaggerSettings]] = BiLSTMTaggerSettings

    def skip(self, setup: Setup) -> str | None:
        data = setup.settings.data
        return None if data is None else missing(data_path(data))

    def prepare(self, setup: Setup) -> None:
        self._setup = setup
        settings: BiLSTMTaggerSettings = setup.settings
        if settings.data:
            sentences = read_tagged_text(Path(data_path(settings.data)))
        else:
            sentences = make_sentences(settings.made, setup.seed)
        vocabulary = TagVocabulary.of(sentences, settings.rare)
        self._sentences = [vocabulary.number(sentence, settings.characters) for sentence in sentences]
        torch.manual_seed(setup.seed)
        self._tagger = Tagger(sizes_of(settings, vocabulary)).to(setup.device)
        self._training = OperationTraining(setup, self._tagger, self._forward(), settings.learning_rate)

    def batches(self) -> list[list[TaggedSentence]]:
        return sentence_batches(shuffled(self._sentences, self._setup.seed), self._setup.batch_size)

    def run(self, batch: Sequence[TaggedSentence]) -> None:
        self._training.step(batch)

    def check(self) -> Tensor:
        batches = sentence_batches(self._sentences[:CHECKED], self._setup.batch_size)
        return self._training.loss_and_gradients(batches)

    def work(self, batch: Sequence[TaggedSentence]) -> Work:
        return Work(
            sentences=len(batch),
            tokens=sum(len(sentence.words) for sentence in batch),
            # The backward pass has two products for each of the forward pass.
            operations=3.0 * sum(operations(self._tagger.sizes, sentence) for sentence in batch),
            padding=None if self._setup.method == "library" else 0.0,
        )

    def _forward(self) -> Callable[[Any], Forward]:
        setup, tagger = self._setup, self._tagger
        recorded = RecordedTagger(tagger, setup.settings.grain)
        if setup.method in METHODS:
            return GraphForward.by_example(setup, recorded.losses)
        if setup.method in MANUAL_THEN:
            return GraphForward(setup, recorded.losses_together, MANUAL_THEN[setup.method])
        return AutogradForward(setup, partial(tagger.loss, library=setup.method == "library"))


def make_sentences(made: MadeSentences, seed: int) -> list[list[TaggedWord]]:
    draw = random.Random(seed)
    sentences = []
    for _ in range(made.sentences):
        words = [draw.randrange(made.vocabulary) for _ in range(draw.randint(made.shortest, made.longest))]
        labels = ((word + before) % made.labels for before, word in zip([0, *words], words, strict=False))
        sentences.append(
            [TaggedWord(f"w{word}", str(label)) for word, label in zip(words, labels, strict=True)]
        )
    return sentences


def sizes_of(settings: BiLSTMTaggerSettings, vocabulary: TagVocabulary) -> TaggerSizes:
    return TaggerSizes(
        words=len(vocabulary.words) + 1,
        labels=len(vocabulary.labels),
        word_size=settings.word_size,
        hidden_size=settings.hidden_size,
        layers=settings.layers,
        middle_size=settings.middle_size,
        characters=len(vocabulary.characters) + 1 if settings.characters else 0,
        character_size=settings.character_size,
    )


def operations(sizes: TaggerSizes, sentence: TaggedSentence) -> float:
    """Floating-point operations of the products of a forward pass; first steps have no recurrent product."""

    def bilstm(frames: int, inputs: int, hidden: int) -> int:
        return 2 * 4 * hidden * (frames * inputs + (frames - 1) * hidden)

    words, hidden, middle = len(sentence.words), sizes.hidden_size, sizes.middle_size
    products = bilstm(words, sizes.word_size, hidden)
    products += (sizes.layers - 1) * bilstm(words, 2 * hidden, hidden)
    products += words * ((2 * hidden + sizes.labels) * middle if middle else 2 * hidden * sizes.labels)
    for spelling in sentence.spellings.values():
        products += bilstm(len(spelling), sizes.character_size, sizes.word_size // 2)
    return 2.0 * products


PLUGIN = BiLSTMTagger
