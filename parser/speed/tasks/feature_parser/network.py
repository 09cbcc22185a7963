"""The greedy parser over BiLSTM features (Kiperwasser & Goldberg 2016), with exploration.

A state is scored from the BiLSTM vectors of the words in its features. The loss of each step is a hinge
loss; see `dynamic_oracle`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.levels import Integers
from parser.batching.operations.cells import Grain, slices, trace_template
from parser.batching.operations.elementary_operations import Lookup
from parser.batching.operations.operation import Operation, OperationBatch, OperationGradients
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Index, Template, Writer
from parser.batching.operations.writer import Value, Values
from parser.networks.bilstm import bilstm
from parser.speed.tasks.bilstms import BiLSTM, RecordedBiLSTM, flat_tensor
from parser.speed.tasks.feature_parser.dynamic_oracle import (
    FEATURES,
    HINGE_MARGIN,
    NOTHING,
    TRANSITION_KINDS,
    Decisions,
    FeatureSentence,
)
from parser.speed.tasks.operation_training import sparse_table

TimedPhase = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class FeatureParserSizes:
    words: int
    tags: int
    labels: int
    word_size: int = 100
    tag_size: int = 25
    hidden_size: int = 200
    """Per BiLSTM layer and direction."""
    layers: int = 2
    middle_size: int = 100
    """The size of each of the two hidden layers."""
    explore: float = 0.1


class FeatureParser(nn.Module):
    """The score of a labelled transition is the score of its kind plus its own; the output has both.

    The two are computed from separate hidden layers. Labelled transitions are Shift, then Left with each
    label, then Right with each label.
    """

    def __init__(self, sizes: FeatureParserSizes):
        super().__init__()
        self.sizes = sizes
        self.words = sparse_table(sizes.words, sizes.word_size)
        self.tags = nn.Parameter(0.1 * torch.randn(sizes.tags, sizes.tag_size))
        self.reader = bilstm(sizes.word_size + sizes.tag_size, sizes.hidden_size, sizes.layers)
        self.nothing = nn.Parameter(torch.zeros(1, 2 * sizes.hidden_size))
        # Both hidden layers as one product.
        self.middle = nn.Linear(FEATURES * 2 * sizes.hidden_size, 2 * sizes.middle_size)
        self.kinds = nn.Linear(sizes.middle_size, TRANSITION_KINDS)
        self.labelled = nn.Linear(sizes.middle_size, 1 + 2 * sizes.labels)

    def loss(self, sentences: Sequence[FeatureSentence], run: BiLSTM) -> Tensor:
        """The loss, summed over all steps, batched by hand. run: how the BiLSTM is run."""
        device = self.words.weight.device
        of_words = self.words(flat_tensor([sentence.words for sentence in sentences], device))
        of_tags = self.tags[flat_tensor([sentence.tags for sentence in sentences], device)]
        inputs = torch.cat([of_words, of_tags], dim=1)
        vectors = run(self.reader, inputs, [len(sentence.words) for sentence in sentences])
        table = torch.cat([vectors, self.nothing])  # [words + 1, 2 * hidden]
        losses = [self.nothing.new_zeros(())]
        decisions = Decisions(sentences, self.sizes.labels, self.sizes.explore)
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
        sizes = network.sizes
        self._sizes = sizes

        def embed(writer: Writer, word: Index, tag: Index) -> Value:
            of_word = writer.lookup(network.words.weight, word, sparse=True)
            return writer.concatenate([of_word, writer.lookup(network.tags, tag)])

        def score(writer: Writer, *words: Value) -> Value:
            middle = writer.tanh(writer.linear(network.middle.weight, *words, bias=network.middle.bias))
            of_kinds, of_labelled = slices(writer, middle, sizes.middle_size)
            kinds = writer.linear(network.kinds.weight, of_kinds, bias=network.kinds.bias)
            labelled = writer.linear(network.labelled.weight, of_labelled, bias=network.labelled.bias)
            return writer.concatenate([kinds, labelled])

        self._embed = Template.trace(embed, (), indices=2)
        self._reader = RecordedBiLSTM(network.reader, grain)
        self._join = Template.trace(lambda writer, *ways: writer.concatenate(ways), (sizes.hidden_size,) * 2)
        self._vectors = cache(self._trace_vectors)
        self._nothing = Template.of(Lookup(network.nothing))
        self._score = trace_template(grain, score, (2 * sizes.hidden_size,) * FEATURES)
        width = TRANSITION_KINDS + 1 + 2 * sizes.labels
        self._hinge = Template.of(Hinge(width), (width,))

    def losses(self, graph: Graph, sentences: Sequence[FeatureSentence], phase: TimedPhase) -> Values:
        """The losses of all steps with a loss. Runs the graph in each step; the last losses are pending.

        phase: see `Setup.phase`.
        """
        with phase("graph"):
            vectors = self._vectors_of(graph, sentences)
        decisions = Decisions(sentences, self._sizes.labels, self._sizes.explore)
        losses: list[int] = []
        for rows, words in decisions:
            with phase("graph"):
                scores = graph.each(self._score, vectors[rows[:, None], words].T)[0]
            with phase("scheduling"):
                steps = graph.schedule()
            with phase("forward"), torch.no_grad():
                graph.run(steps)
                found = graph.values(scores).cpu().double().numpy()
            chosen = decisions.take(found)
            with phase("graph"):
                within = np.array(scores.numbers)[chosen.places]
                losses += graph.each(self._hinge, [within], chosen.pairs[None])[0].numbers
        return Values(graph, losses)

    def _vectors_of(self, graph: Graph, sentences: Sequence[FeatureSentence]) -> Integers:
        """[sentences, words of the longest + 1] The vectors of words, and the vector of `NOTHING` last."""
        nothing = graph.apply(self._nothing, (), (0,))[0].number
        found = np.full((len(sentences), max(len(sentence.words) for sentence in sentences) + 1), nothing)
        for row, sentence in zip(found, sentences, strict=True):
            length = len(sentence.words)
            row[:length] = graph.apply(self._vectors(length), (), (*sentence.words, *sentence.tags)).numbers
        return found

    def _trace_vectors(self, length: int) -> Template:
        """The template that maps the words and tags of a sentence to the vectors of its words."""

        def write(writer: Writer, *given: Index) -> Sequence[Value]:
            inputs = writer.each(self._embed, [], [given[:length], given[length:]])[0]
            return writer.each(self._join, self._reader.read(writer, inputs))[0]

        return Template.trace(write, (), 2 * length)
