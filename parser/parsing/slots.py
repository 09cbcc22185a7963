"""Parsing in slots: when a slot's sentence ends, the next one takes its place.

A batch of sentences would go on until its longest is done, its other rows idle. Slots are full until the
sentences run out, whatever their lengths.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

from parser.networks import stack_lstm
from parser.networks.examples import buffer_tokens
from parser.networks.loss import ILLEGAL_SCORE
from parser.networks.stepper import Stepper
from parser.parsing.model import Model
from parser.transitions.inventory import Inventory
from parser.transitions.state import State
from parser.transitions.system import TransitionSystem
from parser.treebank.batches import cut_by_words
from parser.treebank.lifting import restored
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence

STEPS_BETWEEN_LOOKS = 16
"""The host looks at the device's state, and waits for it, only so often."""
STEPS_BETWEEN_REFILLS = 4
"""Finished slots wait so long at the most: filling them costs a sixth of a step."""
SLOTS = 256
"""Sentences that are parsed at the same time."""
READ_AHEAD = 25_000
"""Words that are read, and sorted by length, at a time."""
ENCODED_TOGETHER = 2_000
"""Words, padding included, whose buffers are encoded at a time."""


MOST_FRAMES = 100_000
"""Frames of all slots' stacks, if they get as deep as they can: long sentences have fewer slots."""


class Tree(NamedTuple):
    heads: tuple[int, ...]
    labels: tuple[str, ...]


def parse_stream(
    model: Model, sentences: Iterable[Sentence], slots: int = SLOTS, read_ahead: int = READ_AHEAD
) -> Iterator[tuple[Sentence, Tree]]:
    """Parse any number of sentences, in their order, in bounded memory.

    read_ahead: words that are read, and sorted by length, at a time; a longer sentence is read all the same.
    """
    for group in _groups(sentences, read_ahead):
        yield from zip(group, parse(model, group, slots), strict=True)


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


def parse(model: Model, sentences: Sequence[Sentence], slots: int = SLOTS) -> list[Tree]:
    """The trees of some sentences; where the device has too little memory for all, half of them at a time.

    Raises ValueError if it has too little for one.
    """
    if not sentences:
        return []
    try:
        return _parse_together(model, sentences, slots)
    except torch.OutOfMemoryError:
        if len(sentences) == 1:
            name, words = sentences[0].identifier, len(sentences[0])
            message = f"sentence {name}: the device has too little memory for its {words:,} words"
            raise ValueError(message) from None
    middle = len(sentences) // 2
    tqdm.write(f"out of memory: {len(sentences)} sentences are parsed in two parts", file=sys.stderr)
    return [*parse(model, sentences[:middle], slots), *parse(model, sentences[middle:], slots)]


def _parse_together(model: Model, sentences: Sequence[Sentence], slots: int) -> list[Tree]:
    # Longest first, so that no long sentence is left when the slots run empty.
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    tokens = model.vocabulary.encode_tokens([sentences[number] for number in order])
    with torch.inference_mode():
        state = parse_tokens(model, tokens, slots)
    heads = Ragged(state.heads[:-1].cpu(), tokens.lengths).unflatten()
    labels = Ragged(state.labels[:-1].cpu(), tokens.lengths).unflatten()
    name = model.vocabulary.labels.string
    trees = {
        number: Tree(*restored(own_heads.tolist(), tuple(map(name, own_labels.tolist()))))
        for number, own_heads, own_labels in zip(order, heads, labels, strict=True)
    }
    return [trees[number] for number in range(len(sentences))]


def parse_tokens(model: Model, tokens: Ragged, slots: int) -> State:
    """The state when all sentences are parsed; its flat tensors hold the trees. tokens: [words, columns]."""
    encoded = _encode(model, tokens)
    most_slots = max(1, MOST_FRAMES // (int(tokens.lengths.max()) + 1))
    queue = _Queue(encoded, min(slots, len(tokens), most_slots), model.inventory.system)
    stepper = Stepper(model.network, model.inventory, queue.slots)
    while True:
        deepest, done = queue.look()
        if done:
            return queue.state
        stepper.stack.reserve(deepest + STEPS_BETWEEN_LOOKS)
        for _ in range(STEPS_BETWEEN_LOOKS // STEPS_BETWEEN_REFILLS):
            stepper.restart(queue.refill())
            for _ in range(STEPS_BETWEEN_REFILLS):
                _take_best_transitions(model, encoded, queue, stepper)


@dataclass(frozen=True)
class Encoded:
    """Sentences with all that does not depend on the transitions. W words in all."""

    lengths: Tensor
    """[sentences]"""
    words: Tensor
    """[W + 2, 4 * hidden] Words, then ROOT and the buffer's end, projected for the stack's LSTM."""
    actions: Tensor
    """[transitions + 1, 4 * hidden] Embeddings of the transitions, projected for the history's LSTM."""
    buffer: Tensor
    """[W + sentences, hidden] What the buffers show, for every front of each sentence from its first word."""


def _encode(model: Model, tokens: Ragged) -> Encoded:
    """tokens: values [words, columns]."""
    network, device = model.network, model.device
    words = network.tokens(tokens.values.to(device))
    chunks = []
    for rows in cut_by_words(torch.arange(len(tokens)), tokens.lengths.tolist(), ENCODED_TOGETHER):
        table_rows = torch.cat([tokens.elements(rows), torch.tensor([len(words) - 2, len(words) - 1])])
        chunks.append(_encode_buffers(model, words[table_rows.to(device)], tokens.lengths[rows].to(device)))
    return Encoded(
        lengths=tokens.lengths.to(device),
        words=stack_lstm.project(network.stack, words),
        actions=stack_lstm.project(network.history, network.actions.weight),
        buffer=torch.cat(chunks),
    )


def _encode_buffers(model: Model, table: Tensor, lengths: Tensor) -> Tensor:
    """[words + sentences, hidden] table: [words + 2, token] of a batch; lengths: [batch]."""
    shown = model.network.read_buffer(table, [buffer_tokens(lengths)])  # [frames * batch, hidden]
    fronts = lengths + 1
    sentence = torch.arange(len(lengths), device=lengths.device).repeat_interleave(fronts)
    # The frames run from the buffer's end: counted down, they are the fronts from the first word on.
    frame = fronts.cumsum(0)[sentence] - 1 - torch.arange(len(sentence), device=lengths.device)
    return shown[frame * len(lengths) + sentence]


def _take_best_transitions(model: Model, encoded: Encoded, queue: _Queue, stepper: Stepper) -> None:
    scores = stepper.scores(encoded.buffer.index_select(0, queue.buffer_rows()))
    best = best_transitions(model.inventory, queue.state, scores)
    top = model.inventory.apply(queue.state, best)
    actions = encoded.actions.index_select(0, best)
    stepper.advance(best, actions, encoded.words.index_select(0, queue.word_rows(top)))


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The best legal transitions by scores [batch, transitions]; `wait` for a finished sentence."""
    legal = inventory.with_labels(inventory.system.legal(state))
    # However low a legal score is, it stays above those of the others.
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    best = scores.masked_fill(~legal, ILLEGAL_SCORE).argmax(1)
    return best.masked_fill(inventory.system.finished(state), inventory.wait)


class _Queue:
    """Which sentence each slot has, and the parser states of the slots."""

    def __init__(self, encoded: Encoded, slots: int, system: TransitionSystem):
        lengths = encoded.lengths
        self.slots, self._system, self._lengths = slots, system, lengths
        self._first_words = lengths.cumsum(0) - lengths
        self._sentences = torch.arange(slots, device=lengths.device)  # [slots]
        self._started = torch.tensor(slots, device=lengths.device)
        self._root_row = lengths.sum()
        self.state = State.initial(lengths, slots)

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

    def word_rows(self, words: Tensor) -> Tensor:
        """[slots] Rows of `Encoded.words` for the words [slots] of the slots' sentences."""
        return torch.where(words > 0, self.state.base + words, self._root_row)

    def buffer_rows(self) -> Tensor:
        """[slots] Rows of `Encoded.buffer` for the slots' fronts: one more for each sentence than words."""
        return self.state.base + self.state.front + self._sentences
