"""Stepping with gradients (Ding & Koehn 2019, section 3): parsers that take one transition at a time.

With composition, buffers change as well as stacks. A right arc replaces the two top vectors of the stack by
the composed vector. A left arc (arc-hybrid, arc-eager) replaces the vector of B0 by it. Each step computes
both operations for all parsers and selects the results by the transition, without branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.ragged import Padding, gather_rows
from parser.batching.stack import Stack
from parser.batching.stack_lstm import States, SteppedLSTM, join, output
from parser.batching.stack_operations import PUSH
from parser.networks.replay.batch import Batch, buffer_rows, front_rows
from parser.networks.settings import FEATURE_WORDS
from parser.networks.stack_parser import StackParser
from parser.transitions.inventory import Inventory
from parser.transitions.state import State, front_positions
from parser.transitions.system import Place
from parser.treebank.batches import split_by_words
from parser.treebank.tokens import Tokens


class StatePositions(NamedTuple):
    """The rows and fronts that states read. Tensors are [batch] or, for many steps, [steps, batch]."""

    top: Tensor
    """Row of S0 in the vector table (words, ROOT, end of the buffer)."""
    below: Tensor
    """Row of S1 in the vector table; the row of ROOT if there is no S1."""
    front: Tensor
    """Index of the buffer's front among the fronts of all sentences, see `front_positions`."""

    @classmethod
    def of(cls, state: State, sentences: Tensor, words: Tensor | int) -> StatePositions:
        """sentences: [batch] sentence of each state. words: total number of words, also the row of ROOT."""
        on_stack = torch.stack([state.top(), state.top(below=1)])
        top, below = torch.where(on_stack > 0, state.base + on_stack, words)
        return cls(top, below, state.base + state.front + sentences)


Inputs = tuple[Tensor, ...]
"""Tensors [batch, size] or, for many steps, [steps, batch, size], gathered at `StatePositions`."""


class Outputs(NamedTuple):
    """The arguments of `StackParser.score_states`, [batch, hidden] each."""

    stack: Tensor
    features: Tensor
    history: Tensor


class Memory:
    """The stacks of a batch, initially with only ROOT, and the LSTM over the transitions."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int, root_row: Tensor):
        """root_row: [1, size] The first row of each stack."""
        self.stack = Stack(batch, root_row.shape[1], like=root_row[0])
        self.stack.write(*PUSH, root_row.expand(batch, -1))
        self._lstm = SteppedLSTM(network.history)
        embeddings = network.transition_embeddings.weight
        self._inputs = self._lstm.project(embeddings)  # [transitions + 1, 4 * hidden]
        first = self._lstm.first(embeddings[inventory.no_op])
        self._history: States = [part.expand(batch, -1) for part in first]

    def reserve(self, depth: int) -> None:
        """Ensure that stacks have room for `depth` vectors."""
        self.stack.reserve(depth)

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        """[..., 4 * hidden] Projected embeddings of transitions [...], see `SteppedLSTM.project`."""
        return gather_rows(self._inputs, transitions)

    def advance(self, transition_inputs: Tensor) -> None:
        """Add transitions to the history. transition_inputs: [batch, 4 * hidden]."""
        self._history = self._lstm.advance(transition_inputs, self._history)

    @property
    def history(self) -> Tensor:
        """[batch, hidden] The output of the LSTM."""
        return output(self._history)


MAX_GROUP_WORDS = {"cpu": 2_000, "cuda": 20_000}
"""Number of words, including padding, whose buffers are encoded at a time. Larger groups need more memory.
They are not faster on a CPU, but need fewer kernel launches on a GPU."""


def sentence_groups(table: Tensor, tokens: Tokens) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Split a batch into groups of consecutive sentences.

    Yields for each group its part of the table, the rows [frames, sentences] that its buffers read (see
    `buffer_rows`) and, on the host, the lengths [sentences].
    """
    root_and_end, max_words = torch.arange(-2, 0) + len(table), MAX_GROUP_WORDS[table.device.type]
    for rows in split_by_words(torch.arange(len(tokens)), tokens.lengths.tolist(), max_words):
        words, lengths = torch.cat([tokens.numbers.elements(rows), root_and_end]), tokens.lengths[rows]
        [frames] = buffer_rows(lengths, Padding.of(lengths + 1, None), len(words) - 2)
        words, frames = (to_device(indices, table.device) for indices in (words, frames))
        yield table.index_select(0, words), frames, lengths


def frames_by_front(frames: Tensor, lengths: Tensor) -> Tensor:
    """[words + sentences, ...] Arrange the outputs of buffers by front, as in `front_positions`.

    frames: [frames * sentences, ...], from the end of the buffer to the first word. lengths: [sentences], on
    the host.
    """
    sentence, position = front_positions(lengths)
    frame = lengths[sentence] - position
    return frames.index_select(0, to_device(frame * len(lengths) + sentence, frames.device))


def buffer_states(lstm: SteppedLSTM, inputs: Tensor) -> Tensor:
    """[frames * sentences, state] States of the buffer LSTM. inputs: [frames, sentences, token]."""
    states = lstm.split(inputs.new_zeros(inputs.shape[1], lstm.state_size))
    projected = lstm.project(inputs.flatten(0, 1)).view(*inputs.shape[:2], -1)
    found = []
    for frame in projected:
        states = lstm.advance(frame, states)
        found.append(join(states))
    return torch.cat(found)


class PlainStepper:
    """Parsers without composition. Word vectors and buffer states are computed before the first step."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        """See `stepper`."""
        self._inventory = inventory
        self._lstm = SteppedLSTM(network.stack)
        self._words = self._lstm.project(table)  # [W + 2, 4 * hidden]
        buffers = [
            frames_by_front(network.project_buffer(own, [rows]), lengths)
            for own, rows, lengths in sentence_groups(table, tokens)
        ]
        self._buffer = torch.cat(buffers)  # [W + sentences, hidden]
        self._tops = self._belows = None
        if network.from_words:
            # [W + 2, hidden] each
            self._tops, self._belows, of_fronts = network.linear_with_dropout(
                network.from_words, table
            ).chunk(FEATURE_WORDS, dim=1)
            rows = to_device(front_rows(tokens), table.device)
            self._buffer = self._buffer + gather_rows(of_fronts, rows)
        self.memory = Memory(network, inventory, len(fronts), join(self._lstm.first(network.tokens.root)))

    def inputs_at(self, positions: StatePositions) -> Inputs:
        """Gather the precomputed inputs for the given positions."""
        features = gather_rows(self._buffer, positions.front)
        if self._tops is not None and self._belows is not None:
            features = (
                features + gather_rows(self._tops, positions.top) + gather_rows(self._belows, positions.below)
            )
        return features, gather_rows(self._words, positions.top)

    def outputs(self, inputs: Inputs) -> Outputs:
        """The vectors that are scored in the current states. inputs: at the current positions."""
        features, _ = inputs
        memory = self.memory
        return Outputs(self._lstm.output(memory.stack.top()), features, memory.history)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        """Take the transitions [batch]. inputs: at the positions after these transitions."""
        _, words = inputs
        stack, effects = self.memory.stack, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        states = self._lstm.advance(words, self._lstm.split(stack.previous(read)))
        stack.write(read, move, join(states))
        self.memory.advance(transition_inputs)


class ComposingStepper:
    """Parsers with composition, like `PlainStepper`. A row of the stack is a state and its input vector."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        """See `stepper`."""
        assert network.composition is not None
        self._network, self._inventory, self._compose = network, inventory, network.composition
        self._stack_lstm, self._buffer_lstm = SteppedLSTM(network.stack), SteppedLSTM(network.buffer)
        # Vectors and buffer states of all fronts without composition: [W + sentences, token] and [...,
        # state].
        self._all_vectors = table.index_select(0, to_device(front_rows(tokens), table.device))
        states = [
            frames_by_front(buffer_states(self._buffer_lstm, gather_rows(own, rows)), lengths)
            for own, rows, lengths in sentence_groups(table, tokens)
        ]
        self._all_states = torch.cat(states)
        root = network.tokens.root
        root_row = join([*self._stack_lstm.first(root), root[None]])
        self.memory = Memory(network, inventory, len(fronts), root_row)
        # Vectors and buffer states of the current fronts: [batch, token] and [batch, state].
        self._vectors, self._states = self._all_vectors[fronts], self._all_states[fronts]
        self._read_stack()

    def inputs_at(self, positions: StatePositions) -> Inputs:
        fronts = positions.front
        # The state from which the front is computed. An empty buffer has none, and is never replaced.
        next_fronts = (fronts + 1).clamp(max=len(self._all_states) - 1)
        states = gather_rows(self._all_states, fronts), gather_rows(self._all_states, next_fronts)
        return gather_rows(self._all_vectors, fronts), *states

    def _read_stack(self) -> None:
        """Read the two top rows once after each change, for the scores and for the next transition."""
        self._top_state, self._top = self._split(self.memory.stack.top())
        _, self._below = self._split(self.memory.stack.previous(1))

    def outputs(self, inputs: Inputs) -> Outputs:
        network, memory = self._network, self.memory
        of_front = self._buffer_lstm.output(self._states)
        features = network.linear_with_dropout(network.from_buffer, of_front)
        if network.from_words:
            is_root = memory.stack.height[:, None] == 1  # ROOT is the only row
            below = torch.where(is_root, self._top, self._below)
            features = features + network.project_words(self._top, below, self._vectors)
        return Outputs(self._stack_lstm.output(self._top_state), features, memory.history)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        vectors, states, next_states = inputs
        stack = self.memory.stack
        effects = self._inventory.effects(transitions)
        # [places, batch, token], in the order of `Place`
        words = torch.stack([self._top, self._below, self._vectors])
        composed = self._compose(_at(words, effects.head), _at(words, effects.dependent), transitions)
        composes, pops_buffer = effects.composes, effects.buffer_move == 1

        written = torch.where(_is(composes, Place.S0), composed, _at(words, effects.top))
        read, move = effects.stack_read, effects.stack_move
        before, _ = self._split(stack.previous(read))
        lstm = self._stack_lstm
        written_states = lstm.advance(lstm.project(written), lstm.split(before))
        stack.write(read, move, join([*written_states, written]))

        lstm = self._buffer_lstm
        replaced = join(lstm.advance(lstm.project(composed), lstm.split(next_states)))
        into_buffer, takes = _is(composes, Place.B0), pops_buffer[:, None]
        self._vectors = torch.where(takes, vectors, torch.where(into_buffer, composed, self._vectors))
        self._states = torch.where(takes, states, torch.where(into_buffer, replaced, self._states))
        self.memory.advance(transition_inputs)
        self._read_stack()

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Split stack rows [batch, state + token] into states and vectors."""
        size = self._stack_lstm.state_size
        return rows[:, :size], rows[:, size:]


def _at(words: Tensor, place: Tensor) -> Tensor:
    """[batch, token] The vectors at places [batch], arbitrary for NOWHERE. words: [places, batch, token]."""
    return words[place.clamp(max=len(words) - 1), torch.arange(len(place), device=place.device)]


def _is(composes: Tensor, place: Place) -> Tensor:
    """[batch, 1] bool: whether the composed vector is put at `place`."""
    return (composes == place)[:, None]


Stepper: TypeAlias = PlainStepper | ComposingStepper


def stepper(
    network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
) -> Stepper:
    """table: [W + 2, token] word vectors. fronts: [batch] initial fronts, see `StatePositions.front`."""
    kind = ComposingStepper if inventory.system.composes else PlainStepper
    return kind(network, inventory, table, tokens, fronts)


def score_by_stepping(network: StackParser, inventory: Inventory, table: Tensor, batch: Batch) -> Tensor:
    """[S, transitions] The scores of `StackParser.replay_words`, computed step by step as in parsing.

    table: [W + 2, token], see `EncodedWords`.

    With dropout, the masks differ: stepping samples new masks at each step, replay samples one for each word,
    node and step.
    """
    lengths = to_device(batch.tokens.lengths, batch.transitions.device)
    sentence = torch.arange(len(lengths), device=lengths.device)
    first = lengths.cumsum(0) - lengths + sentence  # the first front of each sentence
    root = batch.tokens.words
    top, below = (batch.by_step(rows, root) for rows in batch.word_features[:, :2].unbind(1))
    # [steps, sentences] each
    positions = StatePositions(top, below, first + batch.by_step(batch.front, 1) - 1)
    transitions = batch.by_step(batch.transitions, inventory.no_op)
    parsers = stepper(network, inventory, table, batch.tokens, positions.front[0])
    parsers.memory.reserve(len(batch.forest.levels))
    # Gathered before the steps: the backward pass of each gather fills a tensor of the size of its source.
    transition_inputs = parsers.memory.transition_inputs(transitions[:-1]).unbind()
    first_inputs, *inputs_after = zip(*(part.unbind() for part in parsers.inputs_at(positions)), strict=True)
    seen = [parsers.outputs(first_inputs)]
    for taken, action, inputs in zip(transitions[:-1], transition_inputs, inputs_after, strict=True):
        parsers.advance(taken, action, inputs)
        seen.append(parsers.outputs(inputs))
    # The next transition is known, so that scores are not needed before the end.
    scores = network.score_states(*map(torch.cat, zip(*seen, strict=True)))
    return scores.index_select(0, batch.step)
