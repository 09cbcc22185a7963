"""Stepping with gradients for parsers with composition, in which buffers change as well as stacks.

A right arc replaces the two top vectors of the stack by the composed vector. With a left arc (arc-hybrid,
arc-eager) the composed vector replaces that of B0. Each step computes both operations for all parsers and
selects the results by the transition, without branches, as in Ding & Koehn 2019, section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.baselines.memory import (
    Inputs,
    Memory,
    Outputs,
    buffer_states,
    frames_by_front,
    sentence_groups,
)
from parser.batching.device import to_device
from parser.batching.ragged import gather_rows
from parser.batching.stepped_lstm import SteppedLSTM, join
from parser.networks.stack_parser import StackParser
from parser.replay.batch import front_rows
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place, Positions
from parser.treebank.vocabulary import Tokens


class ComposingStepper:
    """Stepper with composition. A row of the stack is an LSTM state and its input vector."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        """table: [W + 2, token] word vectors. fronts: [batch] initial fronts, see `Positions.front`."""
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
        self._memory = Memory(network, inventory, len(fronts), root_row)
        # Vectors and buffer states of the current fronts: [batch, token] and [batch, state].
        self._vectors, self._states = self._all_vectors[fronts], self._all_states[fronts]
        self._read_stack()

    def reserve(self, depth: int) -> None:
        self._memory.stack.reserve(depth)

    def inputs_at(self, positions: Positions) -> Inputs:
        fronts = positions.front
        # The state from which the front is computed. An empty buffer has none, and is never replaced.
        next_fronts = (fronts + 1).clamp(max=len(self._all_states) - 1)
        states = gather_rows(self._all_states, fronts), gather_rows(self._all_states, next_fronts)
        return gather_rows(self._all_vectors, fronts), *states

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        return self._memory.history.inputs(transitions)

    def _read_stack(self) -> None:
        """Read the two top rows once after each change, for the scores and for the next transition."""
        self._top_state, self._top = self._split(self._memory.stack.top())
        _, self._below = self._split(self._memory.stack.previous(1))

    def outputs(self, inputs: Inputs) -> Outputs:
        network, memory = self._network, self._memory
        of_front = self._buffer_lstm.output(self._states)
        features = network.linear_with_dropout(network.from_buffer, of_front)
        if network.from_words:
            is_root = memory.stack.height[:, None] == 1  # ROOT is the only row
            below = torch.where(is_root, self._top, self._below)
            features = features + network.project_words(self._top, below, self._vectors)
        return Outputs(self._stack_lstm.output(self._top_state), features, memory.history.output)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        vectors, states, next_states = inputs
        stack = self._memory.stack
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
        self._memory.history.advance(transition_inputs)
        self._read_stack()

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Split stack rows [batch, state + token] into states and vectors."""
        size = self._stack_lstm.state_size
        return rows[:, :size], rows[:, size:]


def _at(words: Tensor, place: Tensor) -> Tensor:
    """[batch, token] The vectors at places [batch], arbitrary for NOWHERE. words: [places, batch, token]."""
    return words[place.clamp(max=len(words) - 1), torch.arange(len(place), device=place.device)]


def _is(composes: Tensor, place: Place) -> Tensor:
    """[batch, 1] bool: where the composed vector is put at `place`."""
    return (composes == place)[:, None]
