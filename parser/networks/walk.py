"""Parsers that go through sentences a transition at a time, in parsing, in exploring and to be compared with.

All that does not depend on the transitions is computed before the first. Who walks says where each parser
stands, by rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.networks import stack_lstm
from parser.networks.batch import Batch
from parser.networks.composing_stepper import ComposingStepper
from parser.networks.stack_parser import SHOWN, StackParser
from parser.networks.stepper import Stepper
from parser.networks.vector_rows import buffer_tokens, front_places, front_rows
from parser.transitions.inventory import Inventory
from parser.transitions.state import State
from parser.treebank.batches import cut_by_words
from parser.treebank.tokens import Tokens

ENCODED_TOGETHER = {"cpu": 2_000, "cuda": 20_000}
"""Words, padding included, whose buffers are encoded at a time. On a CPU more bring only more memory; on a
GPU each group costs launches, for every frame of its longest sentence if the parser composes."""


class Standing(NamedTuple):
    """Where parsers stand: tensors [batch], or [steps, batch] for many steps of each."""

    top: Tensor
    """Row, in the table of vectors (words, ROOT, the buffer's end), of the word on top of the stack."""
    below: Tensor
    """The same of the word below, ROOT if there is none."""
    front: Tensor
    """Row of the buffer's front among all sentences': each has one more than words, for the empty buffer."""

    @classmethod
    def of(cls, state: State, sentences: Tensor, words: Tensor | int) -> Standing:
        """sentences: [batch], whose the states are; words: the number of all words, which is ROOT's row."""
        on_stack = state.words()[:2]
        top, below = torch.where(on_stack > 0, state.base + on_stack, words)
        return cls(top, below, state.base + state.front + sentences)


Seen = tuple[Tensor, ...]
"""Each [batch, some size], or [steps, batch, some size]."""


class Walk(Protocol):
    """A batch of parsers, all of which begin with ROOT on their stacks."""

    def reserve(self, depth: int) -> None:
        """Make room for stacks of `depth` vectors."""

    def seen_from(self, standing: Standing) -> Seen:
        """What parsers that stand there see, of all that was computed before the first transition."""

    def actions(self, transitions: Tensor) -> Tensor:
        """[..., 4 * hidden] The embeddings of transitions [...], projected; see `stack_lstm.project`."""

    def restart(self, which: Tensor, seen: Seen) -> None:
        """Let the parsers where `which` [batch] is True begin anew."""

    def scores(self, seen: Seen) -> Tensor:
        """[batch, transitions]"""

    def advance(self, transitions: Tensor, actions: Tensor, seen: Seen) -> None:
        """Take the transitions [batch]; seen: afterwards."""


def walk(network: StackParser, inventory: Inventory, tokens: Tokens, fronts: Tensor) -> Walk:
    """Parsers that stand before the first words of some of the sentences; fronts: see `Standing`."""
    table = network.tokens(tokens)  # [W + 2, token]
    kind = ComposingWalk if inventory.system.composes else PlainWalk
    return kind(network, inventory, table, tokens, fronts)


def walk_along(network: StackParser, inventory: Inventory, batch: Batch) -> Tensor:
    """[S, transitions] The scores that `StackParser.replay` gives, computed step by step as in parsing.

    With dropout, a step draws masks of its own, where replay has one for each word, node and step.
    """
    lengths = batch.tokens.lengths.to(batch.transitions.device)
    sentence = torch.arange(len(lengths), device=lengths.device)
    first = lengths.cumsum(0) - lengths + sentence  # each sentence's first front
    root = batch.tokens.words
    top, below = (batch.by_step(rows, root) for rows in batch.shown[:, :2].unbind(1))
    standing = Standing(top, below, first + batch.by_step(batch.front, 1) - 1)  # [steps, sentences] each
    transitions = batch.by_step(batch.transitions, inventory.wait)
    own = walk(network, inventory, batch.tokens, standing.front[0])
    own.reserve(len(batch.forest.levels))
    # Looked up before the steps: a look-up's backward pass fills a tensor as large as what it looks into.
    actions = own.actions(transitions[:-1]).unbind()
    first_seen, *seen_after = zip(*(part.unbind() for part in own.seen_from(standing)), strict=True)
    scores = [own.scores(first_seen)]
    for taken, action, seen in zip(transitions[:-1], actions, seen_after, strict=True):
        own.advance(taken, action, seen)
        scores.append(own.scores(seen))
    return torch.cat(scores)[batch.step]


class PlainWalk:
    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        self._words = stack_lstm.project(network.stack, table)  # [W + 2, 4 * hidden]
        self._actions = stack_lstm.project(network.history, network.actions.weight)
        shown = [
            by_front(network.read_buffer(own, [rows]), lengths)
            for own, rows, lengths in _chunks(table, tokens)
        ]
        self._buffer = torch.cat(shown)  # [W + sentences, hidden]
        self._tops = self._belows = None
        if network.from_words:
            # [W + 2, hidden] each
            self._tops, self._belows, fronts_shown = network.read(network.from_words, table).chunk(
                SHOWN, dim=1
            )
            self._buffer = self._buffer + fronts_shown.index_select(
                0, to_device(front_rows(tokens), table.device)
            )
        self._stepper = Stepper(network, inventory, len(fronts))
        self.reserve = self._stepper.stack.reserve

    def seen_from(self, standing: Standing) -> Seen:
        shown = _rows(self._buffer, standing.front)
        if self._tops is not None and self._belows is not None:
            shown = shown + _rows(self._tops, standing.top) + _rows(self._belows, standing.below)
        return shown, _rows(self._words, standing.top)

    def actions(self, transitions: Tensor) -> Tensor:
        return _rows(self._actions, transitions)

    def restart(self, which: Tensor, seen: Seen) -> None:
        self._stepper.restart(which)

    def scores(self, seen: Seen) -> Tensor:
        shown, _ = seen
        return self._stepper.scores(shown)

    def advance(self, transitions: Tensor, actions: Tensor, seen: Seen) -> None:
        _, words = seen
        self._stepper.advance(transitions, actions, words)


class ComposingWalk:
    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        self._actions = stack_lstm.project(network.history, network.actions.weight)
        self._vectors = table.index_select(
            0, to_device(front_rows(tokens), table.device)
        )  # [W + sentences, token]
        states = [
            by_front(_states(network, own[rows]), lengths) for own, rows, lengths in _chunks(table, tokens)
        ]
        self._states = torch.cat(states)  # [W + sentences, state]
        self._stepper = ComposingStepper(network, inventory, self._vectors[fronts], self._states[fronts])
        self.reserve = self._stepper.stack.reserve

    def seen_from(self, standing: Standing) -> Seen:
        fronts = standing.front
        # An empty buffer's front has nothing beneath it, and is never replaced.
        beneath = (fronts + 1).clamp(max=len(self._states) - 1)
        return _rows(self._vectors, fronts), _rows(self._states, fronts), _rows(self._states, beneath)

    def actions(self, transitions: Tensor) -> Tensor:
        return _rows(self._actions, transitions)

    def restart(self, which: Tensor, seen: Seen) -> None:
        vectors, states, _ = seen
        self._stepper.restart(which, vectors, states)

    def scores(self, seen: Seen) -> Tensor:
        return self._stepper.scores()

    def advance(self, transitions: Tensor, actions: Tensor, seen: Seen) -> None:
        self._stepper.advance(transitions, actions, *seen)


def _rows(table: Tensor, rows: Tensor) -> Tensor:
    """[..., size] The rows [...] of a table [rows, size]."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[1])


def _chunks(table: Tensor, tokens: Tokens) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sentence by sentence some: their table, rows of it [frames, sentences] and, on the host, lengths."""
    root_and_end, most = torch.tensor([len(table) - 2, len(table) - 1]), ENCODED_TOGETHER[table.device.type]
    for rows in cut_by_words(torch.arange(len(tokens)), tokens.lengths.tolist(), most):
        own, lengths = torch.cat([tokens.numbers.elements(rows), root_and_end]), tokens.lengths[rows]
        own, frames = (to_device(which, table.device) for which in (own, buffer_tokens(lengths)))
        yield table.index_select(0, own), frames, lengths


def by_front(frames: Tensor, lengths: Tensor) -> Tensor:
    """[words + sentences, ...] For every front of each sentence from its first word on.

    frames: [frames * sentences, ...], from the buffers' ends; lengths: [sentences], on the host.
    """
    sentence, place = front_places(lengths)
    # The frames run from the buffer's end: counted down, they are the fronts from the first word on.
    frame = lengths[sentence] - place
    return frames.index_select(0, to_device(frame * len(lengths) + sentence, frames.device))


def _states(network: StackParser, inputs: Tensor) -> Tensor:
    """[frames * sentences, state] Of the buffers' LSTM; inputs: [frames, sentences, token]."""
    state = inputs.new_zeros(inputs.shape[1], stack_lstm.state_size(network.buffer))
    projected = stack_lstm.project(network.buffer, inputs.flatten(0, 1)).view(*inputs.shape[:2], -1)
    states = []
    for frame in projected:
        state = stack_lstm.advance(network.buffer, frame, state)
        states.append(state)
    return torch.cat(states)
