"""Parsing sentences with a trained model: trees, and the tags, features and lemmas that it predicts.

Each parser takes its best legal transition. Batching is continuous: a finished row of the batch is refilled
with the next sentence. A static batch runs until its longest sentence is finished, and its other rows are
idle.

Tags of several models are those of the highest mean of their probabilities. The models may know other values,
which are matched as strings; a value that a model does not know has no probability there. Models that do not
predict a column have no vote on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.cuda_graph import CudaGraphs, GraphedWork
from parser.batching.device import TooLongError, in_microbatches, to_device
from parser.batching.ragged import Ragged
from parser.networks.loss import ILLEGAL_SCORE
from parser.parsing import BATCH_SIZE
from parser.parsing.arc_probabilities import ArcProbabilities
from parser.parsing.ensemble import numbers_in
from parser.parsing.model import Model
from parser.parsing.parsed_tree import ParsedTree
from parser.stepping.encoding import Positions, WordVectors
from parser.stepping.stepper import EnsembleInference, InferenceStepper, Member, inference_stepper
from parser.system.machine import compute_alone_after_fork
from parser.transitions.inventory import Inventory
from parser.transitions.system import State, TransitionSystem
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import UNKNOWN, Tokens, Vocabulary


class Vote(NamedTuple):
    """What a model says of a column."""

    values: tuple[str, ...]
    scores: Tensor
    """[rows, values]"""
    row: Tensor
    """[words] The row of each word."""

    def probabilities(self) -> Tensor:
        """[words, values]"""
        return self.scores.softmax(1, dtype=torch.float32).index_select(0, self.row)


class Choice(NamedTuple):
    values: tuple[str, ...]
    best: Tensor
    """[words] The index of the value of each word."""

    @classmethod
    def of(cls, votes: Sequence[Vote]) -> Choice:
        if len(votes) == 1:
            [vote] = votes
            return cls(vote.values, vote.scores.argmax(1).index_select(0, vote.row))
        values = tuple(dict.fromkeys(chain.from_iterable(vote.values for vote in votes)))
        index = {value: place for place, value in enumerate(values)}
        row = votes[0].row
        sums = torch.zeros(len(row), len(values), device=row.device)  # [words, values]
        for vote in votes:
            places = to_device(torch.tensor([index[value] for value in vote.values]), row.device)
            sums.index_add_(1, places, vote.probabilities())
        return cls(values, sums.argmax(1))


def votes(vocabulary: Vocabulary, words: WordVectors, tag_scores: Sequence[Tensor]) -> dict[str, Vote]:
    """Of a model, by column. tag_scores: see `WordVectors.with_tags`."""
    row = to_device(words.row[:-2], words.table.device)
    return {
        name: Vote(lexicon.strings, scores[:, UNKNOWN + 1 :], row)
        for (name, lexicon), scores in zip(vocabulary.predicted.items(), tag_scores, strict=True)
    }


def choices(of_models: Sequence[Mapping[str, Vote]]) -> dict[str, Choice]:
    """By column. of_models: the votes of each model."""
    names = dict.fromkeys(chain.from_iterable(of_models))
    return {name: Choice.of([own[name] for own in of_models if name in own]) for name in names}


def predicted_tags(
    chosen: Mapping[str, Choice], sentences: Sequence[Sentence]
) -> list[Mapping[str, tuple[str, ...]]]:
    """For each sentence, the values of all words by column. chosen: for the words of all, in order."""
    if not chosen:
        return [{} for _ in sentences]  # without a wait for the device
    by_word = torch.stack([choice.best for choice in chosen.values()]).tolist()  # by column and word
    strings = {
        name: [choice.values[place] for place in best]
        for (name, choice), best in zip(chosen.items(), by_word, strict=True)
    }
    if "lemma" in strings:
        forms = chain.from_iterable(sentence.forms for sentence in sentences)
        strings["lemma"] = list(map(lemma_of, forms, strings["lemma"]))
    ends = accumulate(map(len, sentences), initial=0)
    return [
        {name: tuple(values[start:end]) for name, values in strings.items()} for start, end in pairwise(ends)
    ]


STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""Steps between two synchronisations of host and device."""
STEPS_BETWEEN_REFILLS = 4
"""A refill takes a sixth of the time of a step, so a finished row is idle for up to three steps."""
MAX_FRAMES = 100_000
"""Memory limit: rows of the batch times the greatest possible stack depth."""


def mask_illegal(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch, transitions] The scores, with -inf for transitions that are not legal."""
    legal = inventory.with_labels(inventory.system.legal(state))
    # Clamping keeps legal scores of -inf above those of illegal transitions.
    return scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill(~legal, ILLEGAL_SCORE)


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The legal transition of highest score; `no_op` when finished. scores: see `mask_illegal`."""
    return scores.argmax(1).masked_fill(inventory.system.finished(state), inventory.no_op)


class Reading(NamedTuple):
    """Sentences as a model reads them."""

    model: Model
    tokens: Tokens
    """On the host."""
    words: WordVectors

    @classmethod
    def of(cls, model: Model, tokens: Tokens) -> Reading:
        return cls(model, tokens, WordVectors.of(model.network, tokens))

    @classmethod
    def with_votes(cls, model: Model, tokens: Tokens) -> tuple[Reading, dict[str, Vote]]:
        """Also what the model says of the columns that it predicts."""
        words, tag_scores = WordVectors.with_tags(model.network, tokens)
        return cls(model, tokens, words), votes(model.vocabulary, words, tag_scores)


def parse_tokens(
    model: Model,
    tokens: Tokens,
    batch_size: int,
    probabilities: ArcProbabilities | None = None,
    in_graph: bool = False,
    readings: Sequence[Reading] = (),
) -> State:
    """Parse sentences; return the final state, whose flat tensors have the trees.

    batch_size: number of sentences in the batch, reduced if they are very long. probabilities: gets those of
    the arcs. in_graph: whether a GPU repeats the steps as a CUDA graph. readings: of the sentences by the
    model and by those whose scores are averaged with its own; by the model alone unless given.
    """
    inventory = model.inventory
    max_batch_size = max(1, MAX_FRAMES // (int(tokens.lengths.max()) + 1))
    queue = _Queue(
        tokens.lengths, min(batch_size, len(tokens), max_batch_size), inventory.system, model.device
    )
    parsers = _parsers(readings or [Reading.of(model, tokens)], len(queue.state.depth))
    parsers.restart(torch.ones_like(queue.state.depth, dtype=torch.bool), queue.positions())

    def steps() -> None:
        for _ in range(STEPS_BETWEEN_SYNCHRONISATIONS // STEPS_BETWEEN_REFILLS):
            refilled = queue.refill()
            positions = queue.positions()
            parsers.restart(refilled, positions)
            for _ in range(STEPS_BETWEEN_REFILLS):
                scores = mask_illegal(inventory, queue.state, parsers.scores(positions))
                best = best_transitions(inventory, queue.state, scores)
                if probabilities is not None:
                    probabilities.add(queue.state, scores, best)
                inventory.apply(queue.state, best)
                positions = queue.positions()
                parsers.advance(best, positions)

    graphs = CudaGraphs(model.device) if in_graph else None
    work = GraphedWork(steps, graphs) if graphs else steps
    while True:
        deepest, done = queue.synchronise()
        if done:
            return queue.state
        if parsers.reserve(deepest + STEPS_BETWEEN_SYNCHRONISATIONS) and graphs:
            work = GraphedWork(steps, graphs)
        work()


def _parsers(readings: Sequence[Reading], batch: int) -> InferenceStepper:
    """`batch` parsers of the sentences."""
    first = readings[0].model
    parsers = [
        inference_stepper(model.network, model.inventory, tokens, words, batch)
        for model, tokens, words in readings
    ]
    if len(readings) == 1:
        return parsers[0]
    numbers = (numbers_in(reading.model, first) for reading in readings)
    return EnsembleInference(list(map(Member, parsers, numbers)))


class _Queue:
    """The states of the rows of the batch, and the sentence in each row."""

    def __init__(self, lengths: Tensor, batch_size: int, system: TransitionSystem, device: torch.device):
        """lengths: [sentences] in words, on the host."""
        self.state = State.initial(lengths, batch_size, device)
        lengths = to_device(lengths, device)
        self._system, self._lengths = system, lengths
        self._bases = lengths.cumsum(0) - lengths - 1  # see `State.base`
        self._sentences = torch.arange(batch_size, device=lengths.device)  # [batch]
        self._started = torch.full((), batch_size, device=lengths.device)
        self._root_row = lengths.sum()

    def synchronise(self) -> tuple[int, bool]:
        """Synchronise host and device; return the greatest stack depth, and whether all is parsed."""
        done = self._system.finished(self.state).all() & (self._started >= len(self._lengths))
        deepest, is_done = torch.stack([self.state.depth.max(), done.long()]).tolist()
        return deepest, bool(is_done)

    def refill(self) -> Tensor:
        """Put the next sentences into finished rows. Returns [batch] bool: which rows were refilled."""
        finished = self._system.finished(self.state)
        sentences = self._started + finished.cumsum(0) - 1
        refilled = finished & (sentences < len(self._lengths))
        torch.where(refilled, sentences, self._sentences, out=self._sentences)
        self._started += refilled.sum()
        state = self.state
        state.depth.masked_fill_(refilled, 1)
        state.front.masked_fill_(refilled, 1)
        state.headless.masked_fill_(refilled, 0)
        torch.index_select(self._lengths, 0, self._sentences, out=state.length)
        torch.index_select(self._bases, 0, self._sentences, out=state.base)
        return refilled

    def positions(self) -> Positions:
        """The positions of the parsers in all rows."""
        return Positions.of(self.state, self._sentences, self._root_row)


READ_AHEAD = 32_768
"""Words that are read and sorted by sentence length at a time."""


def parse_stream(
    model: Model,
    sentences: Iterable[Sentence],
    batch_size: int = BATCH_SIZE,
    read_ahead: int = READ_AHEAD,
    probabilities: bool = False,
) -> Iterator[tuple[Sentence, ParsedTree]]:
    """Parse a stream of sentences in bounded memory, and yield the trees in the order of the sentences.

    read_ahead: words that are read and sorted by sentence length at a time, or a single longer sentence.
    """
    for group in _groups(sentences, read_ahead):
        yield from zip(group, parse(model, group, batch_size, probabilities), strict=True)


def _groups(sentences: Iterable[Sentence], words: int) -> Iterator[list[Sentence]]:
    group: list[Sentence] = []
    size = 0
    for sentence in sentences:
        if group and size + len(sentence) > words:
            yield group
            group, size = [], 0
        group.append(sentence)
        size += len(sentence)
    if group:
        yield group


def parse(
    model: Model, sentences: Sequence[Sentence], batch_size: int = BATCH_SIZE, probabilities: bool = False
) -> list[ParsedTree]:
    """Parse sentences, in microbatches if the memory of the device is too small for all of them.

    Raises ValueError if the memory is too small for a single sentence.
    """
    if not sentences:
        return []
    compute_alone_after_fork()
    lengths = torch.tensor([len(sentence) for sentence in sentences])

    def compute(microbatches: Sequence[Tensor]) -> list[ParsedTree]:
        parts = ([sentences[row] for row in rows.tolist()] for rows in microbatches)
        return [tree for part in parts for tree in _parse_together(model, part, batch_size, probabilities)]

    try:
        return in_microbatches(compute, torch.arange(len(sentences)), lengths)
    except TooLongError as error:
        raise ValueError(f"sentence {sentences[error.row].identifier}: {error}") from None


def _parse_together(
    model: Model, sentences: Sequence[Sentence], batch_size: int, probabilities: bool
) -> list[ParsedTree]:
    # Longest first, so that no long sentence remains at the end, when rows of the batch become empty.
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    ordered = [sentences[number] for number in order]
    all_tokens = [member.vocabulary.encode_tokens(ordered) for member in model.members]
    tokens = all_tokens[0]
    found = ArcProbabilities(model.inventory, tokens.words) if probabilities else None
    with torch.inference_mode():
        readings, chosen = _read(model.members, all_tokens)
        state = parse_tokens(model, tokens, batch_size, found, readings=readings)
        tags = predicted_tags(chosen, ordered)
    heads = Ragged(state.heads[:-1].cpu(), tokens.lengths).unflatten()
    labels = Ragged(state.labels[:-1].cpu(), tokens.lengths).unflatten()
    label_name = model.vocabulary.labels.string
    trees = {
        number: ParsedTree(*deprojectivize(own_heads.tolist(), tuple(map(label_name, own_labels.tolist()))))
        for number, own_heads, own_labels in zip(order, heads, labels, strict=True)
    }
    if found is not None:
        of_arcs = Ragged(found.of_arcs[:-1].cpu(), tokens.lengths).unflatten()
        for number, own in zip(order, of_arcs, strict=True):
            trees[number] = trees[number]._replace(probabilities=tuple(own.tolist()))
    for number, own_tags in zip(order, tags, strict=True):
        trees[number] = trees[number]._replace(tags=own_tags)
    return [trees[number] for number in range(len(sentences))]


def _read(models: Sequence[Model], all_tokens: Sequence[Tokens]) -> tuple[list[Reading], dict[str, Choice]]:
    """The sentences as the models read them, and the tags that they choose together."""
    readings, of_models = zip(*map(Reading.with_votes, models, all_tokens), strict=True)
    return list(readings), choices(of_models)
