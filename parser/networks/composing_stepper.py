"""The parser one transition at a time, for parsers that compose: their buffers change, too.

Besides the stack's push and pop there are two operations that replace: a right arc makes one of the two words
on top, and a left arc one of the buffer's front and the top. Every step computes all of it for all parsers,
and each keeps what its transition asks for: no branch, as in the paper's own step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import Stack
from parser.networks import stack_lstm
from parser.networks.stack_parser import StackParser
from parser.networks.stepper import first_state
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place


class ComposingStepper:
    """The stacks, buffers' fronts and histories of a batch of parsers.

    A row of a stack is the StackLSTM's state and, behind it, the vector that it was made from.
    """

    def __init__(self, network: StackParser, inventory: Inventory, vectors: Tensor, states: Tensor):
        """vectors: [batch, token], states: [batch, state], of the buffers' fronts."""
        assert network.composition is not None
        self._network, self._inventory, self._compose = network, inventory, network.composition
        batch, root = len(vectors), network.tokens.root
        self._root_row = torch.cat([first_state(network.stack, root), root[None]], dim=1)
        self._history_start = first_state(network.history, network.actions.weight[inventory.wait])
        self.stack = Stack(batch, self._root_row.shape[1], like=root)
        self._history = self._history_start.expand(batch, -1)  # [batch, state]
        self._vectors, self._states = vectors, states
        self.restart(torch.ones(batch, dtype=torch.bool, device=root.device), vectors, states)

    def restart(self, which: Tensor, vectors: Tensor, states: Tensor) -> None:
        """Let the parsers where `which` [batch] is True begin anew, with these fronts; see `__init__`."""
        self.stack.empty(which)
        # The others hold: their ROOT goes where nothing reads it.
        self.stack.write(0, which.long(), self._root_row.expand(len(which), -1))
        self._history = torch.where(which[:, None], self._history_start, self._history)
        self._vectors = torch.where(which[:, None], vectors, self._vectors)
        self._states = torch.where(which[:, None], states, self._states)
        self._read_stack()

    def _read_stack(self) -> None:
        """Once after each change: scores and the next transition look at the same two rows."""
        self._top_state, self._top = self._split(self.stack.top())
        _, self._below = self._split(self.stack.previous(1))

    def scores(self) -> Tensor:
        """[batch, transitions]"""
        network = self._network
        shown = network.read(network.from_buffer, stack_lstm.output(network.buffer, self._states))
        if network.from_words:
            is_root = self.stack.pointer[:, None] == 1  # with nothing below
            below = torch.where(is_root, self._top, self._below)
            shown = shown + network.show_words(self._top, below, self._vectors)
        return network.score_states(self._top_state, shown, self._history)

    def advance(
        self, transitions: Tensor, actions: Tensor, vectors: Tensor, states: Tensor, beneath: Tensor
    ) -> None:
        """Take the transitions [batch].

        actions: [batch, 4 * hidden], their embeddings, projected; vectors [batch, token] and states [batch,
        state]: of the fronts afterwards as if nothing had been composed; beneath: the states under these.
        """
        network, inventory = self._network, self._inventory
        kind = inventory.kind[transitions]
        # [places, batch, token], in the order of `Place`
        words = torch.stack([self._top, self._below, self._vectors])
        composed = self._compose(
            _at(words, inventory.head[kind]), _at(words, inventory.dependent[kind]), transitions
        )
        composes, takes_front = inventory.composes[kind], inventory.front_move[kind] == 1

        written = torch.where(_is(composes, Place.S0), composed, _at(words, inventory.top[kind]))
        read, move = inventory.stack_read[kind], inventory.stack_move[kind]
        before, _ = self._split(self.stack.previous(read))
        state = stack_lstm.advance(network.stack, stack_lstm.project(network.stack, written), before)
        self.stack.write(read, move, torch.cat([state, written], dim=1))

        replaced = stack_lstm.advance(network.buffer, stack_lstm.project(network.buffer, composed), beneath)
        into_buffer, takes = _is(composes, Place.B0), takes_front[:, None]
        self._vectors = torch.where(takes, vectors, torch.where(into_buffer, composed, self._vectors))
        self._states = torch.where(takes, states, torch.where(into_buffer, replaced, self._states))
        self._history = stack_lstm.advance(network.history, actions, self._history)
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
