"""BiLSTM taggers (Neubig et al. 2017, section 4), batched by hand and in a graph of operations.

Word embeddings, or a character BiLSTM for rare words; a BiLSTM; a tanh layer; the scores of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.operations.graph import Graph
from parser.batching.operations.lstm import Grain, traced
from parser.batching.operations.parameterised import Lookup
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Index, Value, Writer
from parser.batching.product import linear
from parser.batching.transfer import to_device
from parser.benchmarks.embedding_tables import sparse_table
from parser.benchmarks.recorded_bilstm import RecordedBiLSTM, ends, flat
from parser.benchmarks.tagged_text import TaggedSentence
from parser.networks.bilstm import bilstm, bilstm_by_levels, bilstm_packed


@dataclass(frozen=True)
class TaggerSizes:
    words: int
    labels: int
    word_size: int
    hidden_size: int
    """Per direction."""
    layers: int
    middle_size: int
    """Of the layer between the BiLSTM and the labels; 0 for none."""
    characters: int = 0
    """0 for a tagger without characters."""
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

    def loss(self, sentences: Sequence[TaggedSentence], library: bool) -> Tensor:
        """The loss, summed over all words, batched by hand. library: use `nn.LSTM` instead of our LSTM."""
        labels = flat([sentence.labels for sentence in sentences], self.words.weight.device)
        return F.cross_entropy(self.score(sentences, library), labels, reduction="sum")

    def score(self, sentences: Sequence[TaggedSentence], library: bool) -> Tensor:
        """[words, labels]"""
        run = bilstm_packed if library else bilstm_by_levels
        device = self.words.weight.device
        vectors = self.words(flat([sentence.words for sentence in sentences], device))
        spelled, places = _spellings(sentences)
        if spelled:
            characters = self.characters[flat(spelled, device)]  # [characters, character_size]
            states = run(self.speller, characters, list(map(len, spelled)))  # [characters, word_size]
            first, last = (to_device(place, device) for place in ends(list(map(len, spelled))))
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
    """A tagger recorded in a graph, sentence by sentence."""

    def __init__(self, tagger: Tagger, grain: Grain):
        sizes = tagger.sizes
        self._word = Template.of(Lookup(tagger.words.weight, sparse=True))
        self._reader = RecordedBiLSTM(tagger.reader, grain)
        if sizes.characters:
            self._character = Template.of(Lookup(tagger.characters))
            self._speller = RecordedBiLSTM(tagger.speller, grain)
            halves = (sizes.word_size // 2,) * 2
            self._join = Template.trace(lambda writer, *ways: writer.concatenate(ways), halves)

        def score(writer: Writer, *states: Value) -> Value:
            if tagger.middle:
                middle = writer.linear(tagger.middle.weight, *states, bias=tagger.middle.bias)
                states = (writer.tanh(middle),)
            return writer.linear(tagger.scores.weight, *states, bias=tagger.scores.bias)

        def loss(writer: Writer, forward: Value, backward: Value, label: Index) -> Value:
            return writer.cross_entropy(score(writer, forward, backward), label)

        self._score = traced(grain, score, (sizes.hidden_size,) * 2)
        self._loss = traced(grain, loss, (sizes.hidden_size,) * 2, indices=1)

    def losses(self, graph: Graph, sentence: TaggedSentence) -> Sequence[Value]:
        """The loss of each word."""
        states = self._reader.read(graph, self._words(graph, sentence))
        return graph.each(self._loss, states, [sentence.labels])[0]

    def losses_together(self, graph: Graph, sentences: Sequence[TaggedSentence]) -> Sequence[Value]:
        """The losses of all words, recorded step by step over all sentences, as in manual batching."""
        words = [self._words(graph, sentence) for sentence in sentences]
        labels = list(chain.from_iterable(sentence.labels for sentence in sentences))
        return graph.each(self._loss, self._reader.read_together(graph, words), [labels])[0]

    def scores(self, graph: Graph, sentence: TaggedSentence) -> Sequence[Value]:
        """The scores of all labels for each word."""
        return graph.each(self._score, self._reader.read(graph, self._words(graph, sentence)))[0]

    def _words(self, graph: Graph, sentence: TaggedSentence) -> Sequence[Value]:
        if not sentence.spellings:
            return graph.each(self._word, [], [sentence.words])[0]
        return [
            self._spell(graph, sentence.spellings[place])
            if place in sentence.spellings
            else graph.apply(self._word, (), (word,))[0]
            for place, word in enumerate(sentence.words)
        ]

    def _spell(self, graph: Graph, spelling: Sequence[int]) -> Value:
        forward, backward = self._speller.read(graph, graph.each(self._character, [], [spelling])[0])
        return graph.apply(self._join, (forward[-1], backward[0]))[0]
