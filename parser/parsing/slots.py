"""Parsing in slots: when a slot's sentence ends, the next one takes its place.

A batch of sentences would go on until its longest is done, its other rows idle. Slots are full until the
sentences run out, whatever their lengths.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from parser.batching.transfer import to_device
from parser.machine import one_memory_error
from parser.networks.loss import ILLEGAL_SCORE
from parser.parsing.model import Model
from parser.stepping.positions import Positions
from parser.stepping.stepper import stepper
from parser.transitions.inventory import Inventory
from parser.transitions.state import State
from parser.transitions.system import TransitionSystem
from parser.treebank.lifting import restored
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens

STEPS_BETWEEN_LOOKS = 16
"""The host looks at the device's state, and waits for it, only so often."""
STEPS_BETWEEN_REFILLS = 4
"""Finished slots wait so long at the most: filling them costs a sixth of a step."""
SLOTS = 256
"""Sentences that are parsed at the same time."""
READ_AHEAD = 25_000
"""Words that are read, and sorted by length, at a time."""
MOST_FRAMES = 100_000
"""Frames of all slots' stacks, if they get as deep as they can: long sentences have fewer slots."""


class Tree(NamedTuple):
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    """Of each word's arc and label, as the parser saw it when it made the arc; None if nobody asked."""


def parse_stream(
    model: Model,
    sentences: Iterable[Sentence],
    slots: int = SLOTS,
    read_ahead: int = READ_AHEAD,
    probabilities: bool = False,
) -> Iterator[tuple[Sentence, Tree]]:
    """Parse any number of sentences, in their order, in bounded memory.

    read_ahead: words that are read, and sorted by length, at a time; a longer sentence is read all the same.
    """
    for group in _groups(sentences, read_ahead):
        yield from zip(group, parse(model, group, slots, probabilities), strict=True)


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
    model: Model, sentences: Sequence[Sentence], slots: int = SLOTS, probabilities: bool = False
) -> list[Tree]:
    """The trees of some sentences; where the device has too little memory for all, half of them at a time.

    Raises ValueError if it has too little for one.
    """
    if not sentences:
        return []
    try:
        with one_memory_error():
            return _parse_together(model, sentences, slots, probabilities)
    except torch.OutOfMemoryError:
        if len(sentences) == 1:
            name, words = sentences[0].identifier, len(sentences[0])
            message = f"sentence {name}: the device has too little memory for its {words:,} words"
            raise ValueError(message) from None
    middle = len(sentences) // 2
    tqdm.write(f"out of memory: {len(sentences)} sentences are parsed in two parts", file=sys.stderr)
    halves = sentences[:middle], sentences[middle:]
    return [tree for half in halves for tree in parse(model, half, slots, probabilities)]


def _parse_together(
    model: Model, sentences: Sequence[Sentence], slots: int, probabilities: bool
) -> list[Tree]:
    # Longest first, so that no long sentence is left when the slots run empty.
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    tokens = model.vocabulary.encode_tokens([sentences[number] for number in order])
    found = torch.ones(tokens.words + 1, device=model.device) if probabilities else None
    with torch.inference_mode():
        state = parse_tokens(model, tokens, slots, found)
    heads = Ragged(state.heads[:-1].cpu(), tokens.lengths).unflatten()
    labels = Ragged(state.labels[:-1].cpu(), tokens.lengths).unflatten()
    name = model.vocabulary.labels.string
    trees = {
        number: Tree(*restored(own_heads.tolist(), tuple(map(name, own_labels.tolist()))))
        for number, own_heads, own_labels in zip(order, heads, labels, strict=True)
    }
    if found is not None:
        for number, own in zip(order, Ragged(found[:-1].cpu(), tokens.lengths).unflatten(), strict=True):
            trees[number] = trees[number]._replace(probabilities=tuple(own.tolist()))
    return [trees[number] for number in range(len(sentences))]


def parse_tokens(model: Model, tokens: Tokens, slots: int, probabilities: Tensor | None = None) -> State:
    """The state when all sentences are parsed; its flat tensors hold the trees.

    probabilities: [words + 1], those of the arcs are written there, in the order of `State.heads`.
    """
    inventory = model.inventory
    most_slots = max(1, MOST_FRAMES // (int(tokens.lengths.max()) + 1))
    queue = _Queue(tokens.lengths, min(slots, len(tokens), most_slots), inventory.system, model.device)
    parsers = stepper(model.network, inventory, tokens.to(model.device), queue.positions().front)
    while True:
        deepest, done = queue.look()
        if done:
            return queue.state
        parsers.reserve(deepest + STEPS_BETWEEN_LOOKS)
        for _ in range(STEPS_BETWEEN_LOOKS // STEPS_BETWEEN_REFILLS):
            begins = queue.refill()
            inputs = parsers.inputs_at(queue.positions())
            parsers.restart(begins, inputs)
            for _ in range(STEPS_BETWEEN_REFILLS):
                scores = legal_scores(inventory, queue.state, parsers.scores(inputs))
                best = best_transitions(inventory, queue.state, scores)
                if probabilities is not None:
                    _note_probabilities(inventory, queue.state, scores, best, probabilities)
                inventory.apply(queue.state, best)
                inputs = parsers.inputs_at(queue.positions())
                parsers.advance(best, parsers.actions(best), inputs)


def legal_scores(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch, transitions] The scores, those of transitions that are not legal below all others."""
    legal = inventory.with_labels(inventory.system.legal(state))
    # However low a legal score is, it stays above those of the others.
    return scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill(~legal, ILLEGAL_SCORE)


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The best by `legal_scores`; `wait` for a finished sentence."""
    return scores.argmax(1).masked_fill(inventory.system.finished(state), inventory.wait)


def _note_probabilities(
    inventory: Inventory, state: State, scores: Tensor, taken: Tensor, probabilities: Tensor
) -> None:
    """Where the transitions [batch] are about to make arcs. scores: [batch, transitions], `legal_scores`."""
    waits = taken == inventory.wait
    own = scores.softmax(1).gather(1, taken.masked_fill(waits, 0)[:, None]).squeeze(1)
    dependent = state.words().gather(0, inventory.dependent[inventory.kind[taken]][None]).squeeze(0)
    probabilities[state.place(dependent)] = own.to(probabilities.dtype)


class _Queue:
    """Which sentence each slot has, and the parser states of the slots."""

    def __init__(self, lengths: Tensor, slots: int, system: TransitionSystem, device: torch.device):
        """lengths: [sentences], in words, on the host."""
        self.state = State.initial(lengths, slots, device)
        lengths = to_device(lengths, device)
        self.slots, self._system, self._lengths = slots, system, lengths
        self._first_words = lengths.cumsum(0) - lengths
        self._sentences = torch.arange(slots, device=lengths.device)  # [slots]
        self._started = torch.tensor(slots, device=lengths.device)
        self._root_row = lengths.sum()

    def look(self) -> tuple[int, bool]:
        """The greatest depth of a stack and whether all is done; the host waits for the device here."""
        done = self._system.finished(self.state).all() & (self._started >= len(self._lengths))
        deepest, is_done = torch.stack([self.state.depth.max(), done.long()]).tolist()
        return deepest, bool(is_done)

    def refill(self) -> Tensor:
        """Give waiting sentences to slots that are finished; returns [slots] where one begins."""
        finished = self._system.finished(self.state)
        sentences = self._started + finished.cumsum(0) - 1
        begins = finished & (sentences < len(self._lengths))
        self._sentences = torch.where(begins, sentences, self._sentences)
        self._started = self._started + begins.sum()
        state = self.state
        state.depth.masked_fill_(begins, 1)
        state.front.masked_fill_(begins, 1)
        state.headless.masked_fill_(begins, 0)
        state.length = self._lengths[self._sentences]
        state.base = self._first_words[self._sentences] - 1
        return begins

    def positions(self) -> Positions:
        """Where the slots' parsers stand."""
        return Positions.of(self.state, self._sentences, self._root_row)
