"""The parser over BiLSTM features (Kiperwasser & Goldberg 2016), as Neubig et al. 2017 train it.

A state is scored from the BiLSTM vectors of the words in its features. The loss of each step is a hinge loss;
see `dynamic_oracle`.

The sentences of a batch are parsed in parallel. Each step depends on the scores of the previous one, so the
graph is extended and run once per step. Batches consist of the BiLSTMs and the steps of all sentences. By
hand the BiLSTM runs without padding (`manual`), packed (`library`), or padded (`padded`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from parser.batching import PRECISIONS
from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.levels import Integers
from parser.batching.operations.cells import Grain, slices, trace_template
from parser.batching.operations.elementary_operations import Lookup
from parser.batching.operations.operation import Operation, OperationBatch, OperationGradients
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Index, Template, Writer
from parser.batching.operations.writer import Value, Values
from parser.config.data_folder import data_path
from parser.networks.bilstm import bilstm
from parser.speed.tasks.bilstms import (
    BiLSTM,
    RecordedBiLSTM,
    bilstm_products,
    flat_tensor,
    register_batched_bilstms,
)
from parser.speed.tasks.feature_parser.dynamic_oracle import (
    FEATURES,
    HINGE_MARGIN,
    NOTHING,
    TRANSITION_KINDS,
    Decisions,
    FeatureSentence,
)
from parser.speed.tasks.operation_training import (
    OPERATION_TITLES,
    Forward,
    OperationTraining,
    epoch_of_sentences,
    missing_file,
    sentence_batches,
    sparse_table,
)
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, method, methods_of
from parser.speed.tasks.tagged_text import UNKNOWN, numbered
from parser.system.settings import Settings
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import Sentence

TimedPhase = Callable[[str], AbstractContextManager[object]]


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


class FeatureParser(nn.Module):
    """The score of a labelled transition is the score of its kind plus its own; the output has both.

    The two are computed from separate hidden layers. Labelled transitions are Shift, then Left with each
    label, then Right with each label.
    """

    def __init__(self, settings: TransitionParserSettings, words: int, tags: int, labels: int):
        super().__init__()
        self.settings, self.labels, hidden = settings, labels, settings.hidden_size
        self.words = sparse_table(words, settings.word_size)
        self.tags = nn.Parameter(0.1 * torch.randn(tags, settings.tag_size))
        self.reader = bilstm(settings.word_size + settings.tag_size, hidden, settings.layers)
        self.nothing = nn.Parameter(torch.zeros(1, 2 * hidden))
        # Both hidden layers as one product.
        self.middle = nn.Linear(FEATURES * 2 * hidden, 2 * settings.middle_size)
        self.kinds = nn.Linear(settings.middle_size, TRANSITION_KINDS)
        self.labelled = nn.Linear(settings.middle_size, 1 + 2 * labels)

    def loss(self, sentences: Sequence[FeatureSentence], run: BiLSTM) -> Tensor:
        """The loss, summed over all steps, batched by hand. run: how the BiLSTM is run."""
        device = self.words.weight.device
        of_words = self.words(flat_tensor([sentence.words for sentence in sentences], device))
        of_tags = self.tags[flat_tensor([sentence.tags for sentence in sentences], device)]
        inputs = torch.cat([of_words, of_tags], dim=1)
        vectors = run(self.reader, inputs, [len(sentence.words) for sentence in sentences])
        table = torch.cat([vectors, self.nothing])  # [words + 1, 2 * hidden]
        losses = [self.nothing.new_zeros(())]
        decisions = Decisions(sentences, self.labels, self.settings.explore)
        starts = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
        for rows, words in decisions:
            places = np.where(words == NOTHING, len(vectors), starts[rows, None] + words)
            scores = self._score(table, to_device(torch.from_numpy(places), device))
            chosen = decisions.take(scores.detach().cpu().double().numpy())
            pairs = to_device(torch.from_numpy(chosen.pairs), device)
            losses.append(hinge(scores[chosen.places], pairs).sum())
        return torch.stack(losses).sum()

    def _score(self, table: Tensor, words: Tensor) -> Tensor:
        """[rows, KINDS + labelled transitions] words: [rows, FEATURES], rows of `table`."""
        middle = torch.tanh(linear(table[words].flatten(1), self.middle.weight, self.middle.bias))
        of_kinds, of_labelled = middle.chunk(2, dim=1)  # [rows, middle] each
        kinds = linear(of_kinds, self.kinds.weight, self.kinds.bias)
        labelled = linear(of_labelled, self.labelled.weight, self.labelled.bias)
        return torch.cat([kinds, labelled], dim=1)


def hinge(scores: Tensor, pairs: Tensor) -> Tensor:
    """[rows] MARGIN + score of the incorrect transition - score of the correct one.

    scores: [rows, KINDS + labelled transitions]; pairs: [rows], as in `Chosen`.
    """
    right, wrong = _columns(pairs, scores.shape[1])
    return HINGE_MARGIN + scores.gather(1, wrong).sum(1) - scores.gather(1, right).sum(1)


def _columns(pairs: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """[rows, 2] each: the columns that sum to the scores of the correct and of the incorrect transition."""
    transitions = width - TRANSITION_KINDS
    labels = (transitions - 1) // 2

    def columns(transition: Tensor) -> Tensor:
        return torch.stack([(transition + labels - 1) // labels, transition + TRANSITION_KINDS], dim=1)

    return columns(pairs // transitions), columns(pairs % transitions)


class Hinge(Operation):
    """`hinge` as an operation; its index is the pair."""

    outputs = (1,)
    has_index = True

    def __init__(self, width: int):
        self.width = width

    def signature(self) -> Hashable:
        return type(self), self.width

    def forward(self, batch: OperationBatch) -> None:
        assert batch.index is not None
        batch.outputs[0].copy_(hinge(batch.inputs[0], batch.index)[:, None])

    def backward(self, batch: OperationBatch, gradients: Sequence[Tensor]) -> OperationGradients:
        assert batch.index is not None
        right, wrong = _columns(batch.index, self.width)
        gradient = torch.zeros_like(batch.inputs[0])
        both = gradients[0].expand(-1, 2)
        return OperationGradients((gradient.scatter_add_(1, wrong, both).scatter_add_(1, right, -both),))


class RecordedFeatureParser:
    """The parser recorded in a graph, step by step, because each step depends on the previous one."""

    def __init__(self, network: FeatureParser, grain: Grain):
        settings = network.settings
        self._network = network

        def embed(writer: Writer, word: Index, tag: Index) -> Value:
            of_word = writer.lookup(network.words.weight, word, sparse=True)
            return writer.concatenate([of_word, writer.lookup(network.tags, tag)])

        def score(writer: Writer, *words: Value) -> Value:
            middle = writer.tanh(writer.linear(network.middle.weight, *words, bias=network.middle.bias))
            of_kinds, of_labelled = slices(writer, middle, settings.middle_size)
            kinds = writer.linear(network.kinds.weight, of_kinds, bias=network.kinds.bias)
            labelled = writer.linear(network.labelled.weight, of_labelled, bias=network.labelled.bias)
            return writer.concatenate([kinds, labelled])

        self._embed = Template.trace(embed, (), indices=2)
        self._reader = RecordedBiLSTM(network.reader, grain)
        self._join = Template.trace(
            lambda writer, *ways: writer.concatenate(ways), (settings.hidden_size,) * 2
        )

        @cache
        def vectors(length: int) -> Template:
            """The template that maps the words and tags of a sentence to the vectors of its words."""

            def write(writer: Writer, *given: Index) -> Sequence[Value]:
                inputs = writer.each(self._embed, [], [given[:length], given[length:]])[0]
                return writer.each(self._join, self._reader.read(writer, inputs))[0]

            return Template.trace(write, (), 2 * length)

        self._vectors = vectors
        self._nothing = Template.of(Lookup(network.nothing))
        self._score = trace_template(grain, score, (2 * settings.hidden_size,) * FEATURES)
        width = TRANSITION_KINDS + 1 + 2 * network.labels
        self._hinge = Template.of(Hinge(width), (width,))

    def losses(self, graph: Graph, sentences: Sequence[FeatureSentence], phase: TimedPhase) -> Values:
        """The losses of all steps with a loss. Runs the graph in each step; the last losses are pending.

        phase: see `Setup.phase`.
        """
        with phase("graph"):
            nothing = graph.apply(self._nothing, (), (0,))[0].number
            longest = max(len(sentence.words) for sentence in sentences)
            # [sentences, longest + 1] The vectors of words, and the vector of `NOTHING` last.
            vectors = np.full((len(sentences), longest + 1), nothing)
            for row, sentence in zip(vectors, sentences, strict=True):
                length, given = len(sentence.words), (*sentence.words, *sentence.tags)
                row[:length] = graph.apply(self._vectors(length), (), given).numbers
        decisions = Decisions(sentences, self._network.labels, self._network.settings.explore)
        losses: list[int] = []
        for rows, words in decisions:
            with phase("graph"):
                scores = graph.each(self._score, vectors[rows[:, None], words].T)[0]
            with phase("scheduling"):
                steps = graph.schedule()
            with phase("forward"), torch.no_grad():
                graph.run(steps)
                computed = graph.values(scores).cpu().double().numpy()
            chosen = decisions.take(computed)
            with phase("graph"):
                within = np.array(scores.numbers)[chosen.places]
                losses += graph.each(self._hinge, [within], chosen.pairs[None])[0].numbers
        return Values(graph, losses)


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


register_batched_bilstms(TASK)


class TransitionParser:
    name = "transition_parser"
    paper = "Neubig et al. 2017, Table 1 (Transition-Parsing)"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = OPERATION_TITLES
    precisions = PRECISIONS
    Settings = TransitionParserSettings

    def skip(self, setup: Setup[TransitionParserSettings]) -> str | None:
        return missing_file(setup.settings.treebank) or METHODS.chosen(setup).skip(setup)

    def prepare(self, setup: Setup[TransitionParserSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        trees = [tree for tree in read_treebank(data_path(settings.treebank)) if is_projective(tree.heads)]
        sizes, self._sentences = prepare_trees(settings, trees, setup.seed)
        torch.manual_seed(setup.seed)
        self._network = FeatureParser(settings, *sizes).to(setup.device)
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
            operations=3.0 * sum(forward_operations(self._network, len(tree.heads)) for tree in batch),
            padding=None if METHODS.chosen(self._setup).pads else 0.0,
        )


def prepare_trees(
    settings: TransitionParserSettings, trees: Sequence[Sentence], seed: int
) -> tuple[tuple[int, int, int], list[FeatureSentence]]:
    """The numbers of words and tags, with the unknown one, and of labels; and the numbered sentences."""
    words = numbered(form for tree in trees for form in (*tree.forms, ROOT_FORM))
    tags = numbered(tag for tree in trees for tag in (*tree.upos, ROOT_FORM))
    names = sorted({label for tree in trees for label in tree.labels})
    labels = {label: number for number, label in enumerate(names)}
    sizes = len(words) + 1, len(tags) + 1, len(labels)
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


def forward_operations(network: FeatureParser, words: int) -> float:
    """Floating-point operations of the products of a forward pass, including ROOT."""
    settings, hidden, frames = network.settings, network.settings.hidden_size, words + 1
    products = bilstm_products(frames, settings.word_size + settings.tag_size, hidden)
    products += (settings.layers - 1) * bilstm_products(frames, 2 * hidden, hidden)
    scores = TRANSITION_KINDS + 1 + 2 * network.labels
    products += 2 * words * settings.middle_size * (2 * FEATURES * 2 * hidden + scores)
    return 2.0 * products


PLUGIN: type[Plugin[TransitionParserSettings]] = TransitionParser
