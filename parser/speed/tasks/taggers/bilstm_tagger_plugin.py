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
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from parser.batching import PRECISIONS
from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.operations.cells import Grain, trace_template
from parser.batching.operations.elementary_operations import Lookup
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Index, Template, Writer
from parser.batching.operations.writer import Value, Values
from parser.config.data_folder import data_path
from parser.networks.bilstm import bilstm
from parser.speed.tasks.bilstms import (
    BiLSTM,
    RecordedBiLSTM,
    bilstm_compiled,
    bilstm_forward,
    bilstm_nested,
    bilstm_products,
    bilstm_vmapped,
    end_positions,
    flat_tensor,
    register_batched_bilstms,
)
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    GraphForward,
    OperationTraining,
    epoch_of_sentences,
    missing_compiler,
    missing_file,
    sentence_batches,
    sparse_table,
)
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, method, methods_of
from parser.speed.tasks.tagged_text import TaggedSentence, TaggedWord, TagVocabulary, read_tagged_text
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


class Tagger(nn.Module):
    """A BiLSTM tagger of words, which can read rare words by their characters."""

    def __init__(self, settings: BiLSTMTaggerSettings, words: int, labels: int, characters: int):
        """words, characters: with the unknown one, and for characters also the boundary."""
        super().__init__()
        self.settings, hidden, middle = settings, settings.hidden_size, settings.middle_size
        self.words = sparse_table(words, settings.word_size)
        self.reader = bilstm(settings.word_size, hidden, settings.layers)
        if settings.characters:
            self.characters = nn.Parameter(0.1 * torch.randn(characters, settings.character_size))
            self.speller = bilstm(settings.character_size, settings.word_size // 2, 1)
        self.middle = nn.Linear(2 * hidden, middle) if middle else None
        self.scores = nn.Linear(middle or 2 * hidden, labels)

    def loss(self, sentences: Sequence[TaggedSentence], run: BiLSTM) -> Tensor:
        """The loss, summed over all words, batched by hand. run: how the BiLSTMs are run."""
        labels = flat_tensor([sentence.labels for sentence in sentences], self.words.weight.device)
        return F.cross_entropy(self.score(sentences, run), labels, reduction="sum")

    def score(self, sentences: Sequence[TaggedSentence], run: BiLSTM) -> Tensor:
        """[words, labels]"""
        device = self.words.weight.device
        vectors = self.words(flat_tensor([sentence.words for sentence in sentences], device))
        spelled: list[list[int]] = []
        places: list[int] = []  # of the spelled words
        start = 0
        for sentence in sentences:
            spelled += sentence.spellings.values()
            places += [start + place for place in sentence.spellings]
            start += len(sentence.words)
        if spelled:
            characters = self.characters[flat_tensor(spelled, device)]  # [characters, character_size]
            states = run(self.speller, characters, list(map(len, spelled)))  # [characters, word_size]
            first, last = (to_device(place, device) for place in end_positions(list(map(len, spelled))))
            forward, backward = states.chunk(2, dim=1)
            vectors = vectors.index_copy(
                0, to_device(torch.tensor(places), device), torch.cat([forward[last], backward[first]], dim=1)
            )
        states = run(self.reader, vectors, [len(sentence.words) for sentence in sentences])
        if self.middle:
            states = torch.tanh(linear(states, self.middle.weight, self.middle.bias))
        return linear(states, self.scores.weight, self.scores.bias)


class RecordedTagger:
    """A tagger recorded in a graph, sentence by sentence, with a template for each length of a sentence."""

    def __init__(self, tagger: Tagger, grain: Grain):
        settings = tagger.settings
        self._word = Template.of(Lookup(tagger.words.weight, sparse=True))
        self._reader = RecordedBiLSTM(tagger.reader, grain)
        if settings.characters:
            self._character = Template.of(Lookup(tagger.characters))
            self._speller = RecordedBiLSTM(tagger.speller, grain)
            halves = (settings.word_size // 2,) * 2
            self._join = Template.trace(lambda writer, *ways: writer.concatenate(ways), halves)

        @cache
        def spelled(length: int) -> Template:
            """The template that maps the characters of a word to its vector."""

            def write(writer: Writer, *characters: Index) -> Value:
                vectors = writer.each(self._character, [], [characters])[0]
                forward, backward = self._speller.read(writer, vectors)
                return writer.apply(self._join, (forward[-1], backward[0]))[0]

            return Template.trace(write, (), length)

        @cache
        def losses(length: int) -> Template:
            """The template that maps the vectors of a sentence's words to their losses."""

            def write(writer: Writer, *given: Any) -> Sequence[Value]:
                words, labels = given[:length], given[length:]
                return writer.each(self._loss, self._reader.read(writer, words), [labels])[0]

            return Template.trace(write, (settings.word_size,) * length, length)

        def loss(writer: Writer, forward: Value, backward: Value, label: Index) -> Value:
            states: tuple[Value, ...] = (forward, backward)
            if tagger.middle:
                middle = writer.linear(tagger.middle.weight, *states, bias=tagger.middle.bias)
                states = (writer.tanh(middle),)
            scores = writer.linear(tagger.scores.weight, *states, bias=tagger.scores.bias)
            return writer.cross_entropy(scores, label)

        self._loss = trace_template(grain, loss, (settings.hidden_size,) * 2, indices=1)
        self._spelled, self._losses = spelled, losses

    def losses(self, graph: Graph, sentence: TaggedSentence) -> Values:
        """The loss of each word."""
        return graph.apply(self._losses(len(sentence.words)), self._words(graph, sentence), sentence.labels)

    def losses_together(self, graph: Graph, sentences: Sequence[TaggedSentence]) -> Values:
        """The losses of all words, recorded step by step over all sentences, as in manual batching."""
        words = [self._words(graph, sentence) for sentence in sentences]
        labels = list(chain.from_iterable(sentence.labels for sentence in sentences))
        return graph.each(self._loss, self._reader.read_together(graph, words), [labels])[0]

    def _words(self, graph: Graph, sentence: TaggedSentence) -> Sequence[Value]:
        if not sentence.spellings:
            return graph.each(self._word, [], [sentence.words])[0]
        return [
            graph.apply(self._spelled(len(spelling)), (), spelling)[0]
            if (spelling := sentence.spellings.get(place))
            else graph.apply(self._word, (), (word,))[0]
            for place, word in enumerate(sentence.words)
        ]


def tagger_operations(tagger: Tagger, sentence: TaggedSentence) -> float:
    """Floating-point operations of the products of a forward pass."""
    settings, labels = tagger.settings, tagger.scores.out_features
    words, hidden, middle = len(sentence.words), settings.hidden_size, settings.middle_size
    products = bilstm_products(words, settings.word_size, hidden)
    products += (settings.layers - 1) * bilstm_products(words, 2 * hidden, hidden)
    products += words * ((2 * hidden + labels) * middle if middle else 2 * hidden * labels)
    for spelling in sentence.spellings.values():
        products += bilstm_products(len(spelling), settings.character_size, settings.word_size // 2)
    return 2.0 * products


TASK = "bilstm_tagger"
METHODS = methods_of(TASK)  # called with the setup and the tagger, they return the forward pass of a batch


@method(TASK, "none", "depth", "agenda")
def in_graph(setup: Setup[Any], tagger: Tagger) -> GraphForward:
    """Record the sentences one after the other, and batch their graph."""
    return GraphForward.by_example(setup, RecordedTagger(tagger, setup.settings.grain).losses)


register_batched_bilstms(TASK)


def by_hand_then(further: str, setup: Setup[Any], tagger: Tagger) -> GraphForward:
    """Record the steps of all sentences together, and batch their graph further, by this method."""
    return GraphForward(setup, RecordedTagger(tagger, setup.settings.grain).losses_together, further)


method(TASK, "manual-depth", title="batched by hand, then by depth")(partial(by_hand_then, "depth"))
method(TASK, "manual-agenda", title="batched by hand, then by agenda")(partial(by_hand_then, "agenda"))
method(TASK, "nested")(partial(bilstm_forward, bilstm_nested))
method(TASK, "vmap", pads=True)(partial(bilstm_forward, bilstm_vmapped))
method(TASK, "compiled", skip=lambda setup: missing_compiler())(partial(bilstm_forward, bilstm_compiled))


class BiLSTMTagger:
    name = "bilstm_tagger"
    paper = "Neubig et al. 2017, Table 1 (BiLSTM), Figure 2"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = OPERATION_TITLES
    precisions = PRECISIONS
    Settings: type[BiLSTMTaggerSettings] = BiLSTMTaggerSettings

    def skip(self, setup: Setup[BiLSTMTaggerSettings]) -> str | None:
        return missing_file(setup.settings.data) or METHODS.chosen(setup).skip(setup)

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
        sizes = len(vocabulary.words) + 1, len(vocabulary.labels), len(vocabulary.characters) + 2
        self._tagger = Tagger(settings, *sizes).to(setup.device)
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
            operations=3.0 * sum(tagger_operations(self._tagger, sentence) for sentence in batch),
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


PLUGIN: type[Plugin[BiLSTMTaggerSettings]] = BiLSTMTagger
