"""The parser one transition at a time, for parsers that compose: their buffers change, too.

Besides the stack's push and pop there are two operations that replace: a right arc makes one of the two words
on top, and a left arc one of the buffer's front and the top. Every step computes all of it for all parsers,
and each keeps what its transition asks for: no branch, as in the paper's own step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.networks import stack_lstm
from parser.networks.stack_parser import StackParser
from parser.replay.vector_rows import front_rows
from parser.stepping.encoding import buffer_states, frames_by_front, gather_rows, sentence_groups
from parser.stepping.memory import Memory
from parser.stepping.plain import Inputs
from parser.stepping.positions import Positions
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place
from parser.treebank.tokens import Tokens


class ComposingStepper:
    """For parsers that compose: a stack's row is an LSTM state and the vector that it was made from."""

    def __init__(
        self, network: StackParser, inventory: Inventory, table: Tensor, tokens: Tokens, fronts: Tensor
    ):
        """table: [W + 2, token], the words' vectors; fronts: [batch], see `Positions`."""
        assert network.composition is not None
        self._network, self._inventory, self._compose = network, inventory, network.composition
        self._transition_inputs = stack_lstm.project(network.history, network.transition_embeddings.weight)
        # Of the buffers' fronts as if nothing were ever composed: [W + sentences, token] and [..., state].
        self._all_vectors = table.index_select(0, to_device(front_rows(tokens), table.device))
        states = [
            frames_by_front(buffer_states(network, own[rows]), lengths)
            for own, rows, lengths in sentence_groups(table, tokens)
        ]
        self._all_states = torch.cat(states)
        root = network.tokens.root
        root_row = torch.cat([stack_lstm.first_state(network.stack, root), root[None]], dim=1)
        self._memory = Memory(network, inventory, len(fronts), root_row)
        # Of the fronts as they are: [batch, token] and [batch, state].
        self._vectors, self._states = self._all_vectors[fronts], self._all_states[fronts]
        self._read_stack()

    def reserve(self, depth: int) -> None:
        self._memory.stack.reserve(depth)

    def inputs_at(self, positions: Positions) -> Inputs:
        fronts = positions.front
        # An empty buffer's front has nothing beneath it, and is never replaced.
        beneath = (fronts + 1).clamp(max=len(self._all_states) - 1)
        states = gather_rows(self._all_states, fronts), gather_rows(self._all_states, beneath)
        return gather_rows(self._all_vectors, fronts), *states

    def transition_inputs(self, transitions: Tensor) -> Tensor:
        return gather_rows(self._transition_inputs, transitions)

    def restart(self, which: Tensor, inputs: Inputs) -> None:
        vectors, states, _ = inputs
        self._memory.restart(which)
        self._vectors = torch.where(which[:, None], vectors, self._vectors)
        self._states = torch.where(which[:, None], states, self._states)
        self._read_stack()

    def _read_stack(self) -> None:
        """Once after each change: scores and the next transition look at the same two rows."""
        self._top_state, self._top = self._split(self._memory.stack.top())
        _, self._below = self._split(self._memory.stack.previous(1))

    def scores(self, inputs: Inputs) -> Tensor:
        network, memory = self._network, self._memory
        shown = network.linear_with_dropout(network.from_buffer, stack_lstm.output(network.buffer, self._states))
        if network.from_words:
            is_root = memory.stack.pointer[:, None] == 1  # with nothing below
            below = torch.where(is_root, self._top, self._below)
            shown = shown + network.project_words(self._top, below, self._vectors)
        return network.score_states(self._top_state, shown, memory.history)

    def advance(self, transitions: Tensor, transition_inputs: Tensor, inputs: Inputs) -> None:
        vectors, states, beneath = inputs
        network, inventory, stack = self._network, self._inventory, self._memory.stack
        kind = inventory.kind[transitions]
        # [places, batch, token], in the order of `Place`
        words = torch.stack([self._top, self._below, self._vectors])
        composed = self._compose(
            _at(words, inventory.head[kind]), _at(words, inventory.dependent[kind]), transitions
        )
        composes, pops_buffer = inventory.composes[kind], inventory.buffer_move[kind] == 1

        written = torch.where(_is(composes, Place.S0), composed, _at(words, inventory.top[kind]))
        read, move = inventory.stack_read[kind], inventory.stack_move[kind]
        before, _ = self._split(stack.previous(read))
        state = stack_lstm.advance(network.stack, stack_lstm.project(network.stack, written), before)
        stack.write(read, move, torch.cat([state, written], dim=1))

        replaced = stack_lstm.advance(network.buffer, stack_lstm.project(network.buffer, composed), beneath)
        into_buffer, takes = _is(composes, Place.B0), pops_buffer[:, None]
        self._vectors = torch.where(takes, vectors, torch.where(into_buffer, composed, self._vectors))
        self._states = torch.where(takes, states, torch.where(into_buffer, replaced, self._states))
        self._memory.add_to_history(transition_inputs)
        self._read_stack()

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """States and vectors of rows of the stacks."""
        size = stack_lstm.state_size(self._network.stack)
        return rows[:, :size], rows[:, size:]


def _at(words: Tensor, place: Tensor) -> Tensor:
    """[batch, token] The vectors at places [batch]; for nowhere, any. words: [places, batch, token]."""
    return words[place.clamp(max=len(words) - 1), torch.arange(len(place), device=place.device)]


def _is(composes: Tensor, place: Place) -> Tensor:
    """[batch, 1] bool"""
    return (composes == place)[:, None]
