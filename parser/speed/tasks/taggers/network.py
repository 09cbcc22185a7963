"""A BiLSTM tagger of words, which can read rare words by their characters; and the same in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import linear
from parser.batching.operations.cells import Grain, trace_template
from parser.batching.operations.elementary_operations import Lookup
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Index, Template, Writer
from parser.batching.operations.writer import Value, Values
from parser.networks.bilstm import bilstm
from parser.speed.tasks.bilstms import (
    BiLSTM,
    RecordedBiLSTM,
    bilstm_products,
    end_positions,
    flat_tensor,
)
from parser.speed.tasks.operation_training import (
    sparse_table,
)
from parser.speed.tasks.tagged_text import TaggedSentence


@dataclass(frozen=True)
class TaggerSizes:
    words: int
    labels: int
    word_size: int
    hidden_size: int
    """Per direction."""
    layers: int
    middle_size: int
    """The size of the layer between the BiLSTM and the labels; 0 for none."""
    characters: int = 0
    """The number of characters, with the unknown one and the boundary; 0 for a tagger without characters."""
    character_size: int = 64


class Tagger(nn.Module):
    def __init__(self, sizes: TaggerSizes):
        super().__init__()
        self.sizes = sizes
        self.words = sparse_table(sizes.words, sizes.word_size)
        self.reader = bilstm(sizes.word_size, sizes.hidden_size, sizes.layers)
        if sizes.characters:
            self.characters = nn.Parameter(0.1 * torch.randn(sizes.characters, sizes.character_size))
            self.speller = bilstm(sizes.character_size, sizes.word_size // 2, 1)
        self.middle = nn.Linear(2 * sizes.hidden_size, sizes.middle_size) if sizes.middle_size else None
        self.scores = nn.Linear(sizes.middle_size or 2 * sizes.hidden_size, sizes.labels)

    def loss(self, sentences: Sequence[TaggedSentence], run: BiLSTM) -> Tensor:
        """The loss, summed over all words, batched by hand. run: how the BiLSTMs are run."""
        labels = flat_tensor([sentence.labels for sentence in sentences], self.words.weight.device)
        return F.cross_entropy(self.score(sentences, run), labels, reduction="sum")

    def score(self, sentences: Sequence[TaggedSentence], run: BiLSTM) -> Tensor:
        """[words, labels]"""
        device = self.words.weight.device
        vectors = self.words(flat_tensor([sentence.words for sentence in sentences], device))
        spelled, places = _spellings(sentences)
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


def _spellings(sentences: Sequence[TaggedSentence]) -> tuple[list[list[int]], list[int]]:
    """The spellings of a batch, and the positions of their words."""
    spelled: list[list[int]] = []
    places: list[int] = []
    start = 0
    for sentence in sentences:
        spelled += sentence.spellings.values()
        places += [start + place for place in sentence.spellings]
        start += len(sentence.words)
    return spelled, places


class RecordedTagger:
    """A tagger recorded in a graph, sentence by sentence, with a template for each length of a sentence."""

    def __init__(self, tagger: Tagger, grain: Grain):
        sizes = self._sizes = tagger.sizes
        self._word = Template.of(Lookup(tagger.words.weight, sparse=True))
        self._reader = RecordedBiLSTM(tagger.reader, grain)
        if sizes.characters:
            self._character = Template.of(Lookup(tagger.characters))
            self._speller = RecordedBiLSTM(tagger.speller, grain)
            halves = (sizes.word_size // 2,) * 2
            self._join = Template.trace(lambda writer, *ways: writer.concatenate(ways), halves)
            self._spelled = cache(self._trace_spelling)

        def loss(writer: Writer, forward: Value, backward: Value, label: Index) -> Value:
            states: tuple[Value, ...] = (forward, backward)
            if tagger.middle:
                middle = writer.linear(tagger.middle.weight, *states, bias=tagger.middle.bias)
                states = (writer.tanh(middle),)
            scores = writer.linear(tagger.scores.weight, *states, bias=tagger.scores.bias)
            return writer.cross_entropy(scores, label)

        self._loss = trace_template(grain, loss, (sizes.hidden_size,) * 2, indices=1)
        self._losses = cache(self._trace_sentence)

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

    def _trace_sentence(self, length: int) -> Template:
        """The template that maps the vectors of a sentence's words to their losses."""

        def write(writer: Writer, *given: Any) -> Sequence[Value]:
            words, labels = given[:length], given[length:]
            states = self._reader.read(writer, words)
            return writer.each(self._loss, states, [labels])[0]

        return Template.trace(write, (self._sizes.word_size,) * length, length)

    def _trace_spelling(self, length: int) -> Template:
        """The template that maps the characters of a word to its vector."""

        def write(writer: Writer, *characters: Index) -> Value:
            vectors = writer.each(self._character, [], [characters])[0]
            forward, backward = self._speller.read(writer, vectors)
            return writer.apply(self._join, (forward[-1], backward[0]))[0]

        return Template.trace(write, (), length)


def tagger_operations(sizes: TaggerSizes, sentence: TaggedSentence) -> float:
    """Floating-point operations of the products of a forward pass."""
    words, hidden, middle = len(sentence.words), sizes.hidden_size, sizes.middle_size
    products = bilstm_products(words, sizes.word_size, hidden)
    products += (sizes.layers - 1) * bilstm_products(words, 2 * hidden, hidden)
    products += words * ((2 * hidden + sizes.labels) * middle if middle else 2 * hidden * sizes.labels)
    for spelling in sentence.spellings.values():
        products += bilstm_products(len(spelling), sizes.character_size, sizes.word_size // 2)
    return 2.0 * products
