"""A BiLSTM tagger (Neubig et al. 2017), batched on the fly, by hand, or by `nn.LSTM`.

`manual` runs all sentences of a batch together, step by step, without padding. `manual-depth` and
`manual-agenda` record the same steps in a graph, in which batching by depth or by agenda finds further
batches, such as the outputs of both directions. `library` runs PyTorch's LSTM over packed sequences, and
`padded` over padded ones, which suits batches of similar lengths. `compiled`, `nested` and `vmap` use what
PyTorch offers for irregular sizes today.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching import PRECISIONS
from parser.batching.operations.cells import Grain
from parser.config.data_folder import data_path
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    OperationTraining,
    epoch_of_sentences,
    missing_file,
    sentence_batches,
)
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work
from parser.speed.tasks.tagged_text import TaggedSentence, TaggedWord, TagVocabulary, read_tagged_text
from parser.speed.tasks.taggers.methods import METHODS
from parser.speed.tasks.taggers.network import Tagger, TaggerSizes, tagger_operations
from parser.system.settings import Settings, contradiction_error


class MadeSentences(Settings):
    """Sentences of random words, whose labels depend on the word and the one before it."""

    sentences: int = Field(48, gt=0)
    shortest: int = Field(3, gt=0)
    longest: int = Field(20, gt=0)
    vocabulary: int = Field(1000, gt=0)
    labels: int = Field(10, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> MadeSentences:
        if self.shortest > self.longest:
            raise contradiction_error([("longest", f"is less than shortest, {self.shortest}")])
        return self


class BiLSTMTaggerSettings(Settings):
    data: str | None = None
    """File of sentences of `word|label`, one per line; ${PARSER_DATA} stands for the data folder. null:
    generated sentences, see `made`."""
    made: MadeSentences = MadeSentences()
    characters: bool = False
    """Whether rare words are read by their characters."""
    rare: int = 5
    """Words that occur less often than this are unknown."""
    grain: Grain = "cell"
    """Whether a cell is recorded as one operation (`cell`), or as elementary operations as in the paper
    (`operation`)."""
    word_size: int = Field(128, gt=0)
    hidden_size: int = Field(256, gt=0)
    """Size of the BiLSTM in each direction."""
    layers: int = Field(1, gt=0)
    middle_size: int = Field(32, ge=0)
    """Size of the layer between the BiLSTM and the labels. 0: there is no such layer."""
    character_size: int = Field(64, gt=0)
    similar_lengths: bool = False
    """Whether sentences of similar lengths share a batch. Otherwise, batches are random, as in the paper."""
    learning_rate: float = Field(1e-3, gt=0)


class BiLSTMTagger:
    name = "bilstm_tagger"
    paper = "Neubig et al. 2017, Table 1 (BiLSTM), Figure 2"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = OPERATION_TITLES
    precisions = PRECISIONS
    Settings: type[BiLSTMTaggerSettings] = BiLSTMTaggerSettings

    def skip(self, setup: Setup[BiLSTMTaggerSettings]) -> str | None:
        data = setup.settings.data
        missing = None if data is None else missing_file(data_path(data))
        return missing or METHODS.chosen(setup).skip(setup)

    def prepare(self, setup: Setup[BiLSTMTaggerSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        if settings.data:
            sentences = read_tagged_text(Path(data_path(settings.data)))
        else:
            sentences = make_sentences(settings.made, setup.seed)
        vocabulary = TagVocabulary.of(sentences, settings.rare)
        self._sentences = [vocabulary.number(sentence, settings.characters) for sentence in sentences]
        torch.manual_seed(setup.seed)
        self._tagger = Tagger(tagger_sizes(settings, vocabulary)).to(setup.device)
        forward = METHODS.chosen(setup).make(setup, self._tagger)
        self._training = OperationTraining(setup, self._tagger, forward, settings.learning_rate)

    def batches(self) -> list[list[TaggedSentence]]:
        return epoch_of_sentences(self._sentences, self._setup, self._setup.settings.similar_lengths)

    def run(self, batch: Sequence[TaggedSentence]) -> None:
        self._training.step(batch)

    def check(self) -> Tensor:
        batches = sentence_batches(self._sentences[: self._setup.checked], self._setup.batch_size)
        return self._training.loss_and_gradients(batches)

    def work(self, batch: Sequence[TaggedSentence]) -> Work:
        return Work(
            sentences=len(batch),
            tokens=sum(len(sentence.words) for sentence in batch),
            # The backward pass needs two products for each product of the forward pass.
            operations=3.0 * sum(tagger_operations(self._tagger.sizes, sentence) for sentence in batch),
            padding=None if METHODS.chosen(self._setup).pads else 0.0,
        )


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


def tagger_sizes(settings: BiLSTMTaggerSettings, vocabulary: TagVocabulary) -> TaggerSizes:
    return TaggerSizes(
        words=len(vocabulary.words) + 1,
        labels=len(vocabulary.labels),
        word_size=settings.word_size,
        hidden_size=settings.hidden_size,
        layers=settings.layers,
        middle_size=settings.middle_size,
        characters=len(vocabulary.characters) + 2 if settings.characters else 0,
        character_size=settings.character_size,
    )


PLUGIN: type[Plugin[BiLSTMTaggerSettings]] = BiLSTMTagger
