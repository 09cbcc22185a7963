"""The greedy parser over BiLSTM features (Kiperwasser & Goldberg 2016), with exploration.

A state is scored from the BiLSTM vectors of the words in its features and, for each of their leftmost and
rightmost dependents, from an embedding of its predicted relation to its head, or of "no dependent". This is
our reading of the relation embeddings in Neubig et al. 2017, Appendix C: the released parser of Kiperwasser &
Goldberg has a table of them that no feature reads. Each step has a hinge loss; see `decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.operations.elementary_operations import Lookup
from parser.batching.operations.lstm import Grain, trace_template
from parser.batching.operations.operation import Operation, OperationBatch, OperationGradients
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Index, Template, Value, Writer
from parser.benchmarks.embedding_tables import sparse_table
from parser.benchmarks.feature_parser.dynamic_oracle import (
    CONTEXT_WORDS,
    DEPENDENT_RELATIONS,
    HINGE_MARGIN,
    NOTHING,
    TRANSITION_KINDS,
    Decisions,
    FeatureSentence,
)
from parser.benchmarks.recorded_bilstm import RecordedBiLSTM, flat_tensor
from parser.networks.bilstm import bilstm, bilstm_by_levels, bilstm_packed

STATE_WORDS = 3 * CONTEXT_WORDS
TimedPhase = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class FeatureParserSizes:
    words: int
    tags: int
    labels: int
    word_size: int = 100
    tag_size: int = 25
    relation_size: int = 0
    """0 for a parser without embeddings of relations."""
    hidden_size: int = 100
    """Per BiLSTM layer and direction."""
    layers: int = 2
    middle_size: int = 100
    explore: float = 0.1


class FeatureParser(nn.Module):
    """The score of a labelled transition is the score of its kind plus its own; the output has both.

    Labelled transitions are Shift, then Left and then Right with each label.
    """

    def __init__(self, sizes: FeatureParserSizes):
        super().__init__()
        self.sizes = sizes
        self.words = sparse_table(sizes.words, sizes.word_size)
        self.tags = nn.Parameter(0.1 * torch.randn(sizes.tags, sizes.tag_size))
        self.reader = bilstm(sizes.word_size + sizes.tag_size, sizes.hidden_size, sizes.layers)
        self.nothing = nn.Parameter(torch.zeros(1, 2 * sizes.hidden_size))
        self.middle = nn.Linear(STATE_WORDS * 2 * sizes.hidden_size, sizes.middle_size)
        self.scores = nn.Linear(sizes.middle_size, TRANSITION_KINDS + 1 + 2 * sizes.labels)
        if sizes.relation_size:
            self.relations = nn.Parameter(0.1 * torch.randn(sizes.labels + 1, sizes.relation_size))
            # The part of the middle layer's weight that takes the relations.
            self.middle_of_relations = nn.Linear(
                DEPENDENT_RELATIONS * sizes.relation_size, sizes.middle_size, bias=False
            )

    def loss(self, sentences: Sequence[FeatureSentence], library: bool) -> Tensor:
        """The loss, summed over all steps, batched by hand. library: use `nn.LSTM` instead of our LSTM."""
        device = self.words.weight.device
        run = bilstm_packed if library else bilstm_by_levels
        of_words = self.words(flat_tensor([sentence.words for sentence in sentences], device))
        of_tags = self.tags[flat_tensor([sentence.tags for sentence in sentences], device)]
        inputs = torch.cat([of_words, of_tags], dim=1)
        vectors = run(self.reader, inputs, [len(sentence.words) for sentence in sentences])
        table = torch.cat([vectors, self.nothing])  # [words + 1, 2 * hidden]
        losses = [self.nothing.new_zeros(())]
        decisions = Decisions(sentences, self.sizes.labels, self.sizes.explore)
        starts = np.cumsum([0, *(len(sentence.words) for sentence in sentences)])
        for rows, words, relations in decisions:
            places = np.where(words == NOTHING, len(vectors), starts[rows, None] + words)
            features = to_device(torch.from_numpy(np.concatenate([places, relations], 1)), device)
            scores = self._score(table, *features.split([STATE_WORDS, DEPENDENT_RELATIONS], dim=1))
            chosen = decisions.take(scores.detach().cpu().double().numpy())
            pairs = to_device(torch.from_numpy(chosen.pairs), device)
            losses.append(hinge(scores[chosen.places], pairs).sum())
        return torch.stack(losses).sum()

    def _score(self, table: Tensor, words: Tensor, relations: Tensor) -> Tensor:
        """[rows, KINDS + labelled transitions] The scores of some states.

        words: [rows, FEATURES], rows of `table`; relations: [rows, RELATIONS].
        """
        middle = linear(table[words].flatten(1), self.middle.weight, self.middle.bias)
        if self.sizes.relation_size:
            vectors = self.relations[relations].flatten(1)  # [rows, RELATIONS * relation_size]
            middle = middle + linear(vectors, self.middle_of_relations.weight)
        return linear(torch.tanh(middle), self.scores.weight, self.scores.bias)


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

        def score(writer: Writer, *features: Value) -> Value:
            words, relations = features[:STATE_WORDS], features[STATE_WORDS:]
            middle = writer.linear(network.middle.weight, *words, bias=network.middle.bias)
            if relations:
                middle = writer.add(middle, writer.linear(network.middle_of_relations.weight, *relations))
            return writer.linear(network.scores.weight, writer.tanh(middle), bias=network.scores.bias)

        self._embed = Template.trace(embed, (), indices=2)
        self._reader = RecordedBiLSTM(network.reader, grain)
        self._join = Template.trace(lambda writer, *ways: writer.concatenate(ways), (sizes.hidden_size,) * 2)
        self._nothing = Template.of(Lookup(network.nothing))
        widths = (2 * sizes.hidden_size,) * STATE_WORDS
        if sizes.relation_size:
            self._relation = Template.of(Lookup(network.relations))
            widths += (sizes.relation_size,) * DEPENDENT_RELATIONS
        self._score = trace_template(grain, score, widths)
        width = TRANSITION_KINDS + 1 + 2 * sizes.labels
        self._hinge = Template.of(Hinge(width), (width,))

    def losses(self, graph: Graph, sentences: Sequence[FeatureSentence], phase: TimedPhase) -> list[Value]:
        """The losses of all steps that have one. Runs the graph in each step; the last losses are pending.

        phase: see `Setup.phase`.
        """
        with phase("graph"):
            nothing = graph.apply(self._nothing, (), (0,))[0]
            vectors = [[*self._vectors(graph, sentence), nothing] for sentence in sentences]
            every_relation = self._relations(graph)
        decisions = Decisions(sentences, self._sizes.labels, self._sizes.explore)
        losses: list[Value] = []
        for rows, words, relations in decisions:
            with phase("graph"):
                own = [vectors[row] for row in rows.tolist()]
                # NOTHING is -1, and the last of a sentence's vectors.
                features = [
                    [of_sentence[place] for of_sentence, place in zip(own, places, strict=True)]
                    for places in words.T.tolist()
                ]
                if every_relation:
                    features += [
                        list(map(every_relation.__getitem__, label)) for label in relations.T.tolist()
                    ]
                scores = graph.each(self._score, features)[0]
            with phase("scheduling"):
                steps = graph.schedule()
            with phase("forward"):
                graph.run(steps)
                found = graph.values(scores).cpu().double().numpy()
            chosen = decisions.take(found)
            with phase("graph"):
                within = [scores[place] for place in chosen.places]
                losses += graph.each(self._hinge, [within], [chosen.pairs.tolist()])[0]
        return losses

    def _relations(self, graph: Graph) -> Sequence[Value]:
        """The embeddings of all relations, read once for all steps; none if the parser has none."""
        if not self._sizes.relation_size:
            return ()
        return graph.each(self._relation, [], [range(self._sizes.labels + 1)])[0]

    def _vectors(self, graph: Graph, sentence: FeatureSentence) -> Sequence[Value]:
        inputs = graph.each(self._embed, [], [sentence.words, sentence.tags])[0]
        return graph.each(self._join, self._reader.read(graph, inputs))[0]
