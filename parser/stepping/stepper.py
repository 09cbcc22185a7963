"""Parsers that take one transition at a time, without gradients: for parsing and for exploration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from parser.batching.transfer import to_device
from parser.networks.stack_parser import StackParser
from parser.stepping.composing import ComposingInference
from parser.stepping.encoding import (
    AS_BELOW,
    AS_FRONT,
    AS_TOP,
    Buffers,
    Positions,
    WordVectors,
    from_buffer,
    from_stack,
    from_words,
    state_scores,
)
from parser.stepping.stack_lstm import History, InferenceLSTM, StackRow, StackRows, rows_where
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens


class PlainInference:
    """Without composition: words and buffers do not depend on transitions."""

    def __init__(
        self, network: StackParser, inventory: Inventory, tokens: Tokens, words: WordVectors, batch: int
    ):
        """tokens: on the host; words: their vectors; batch: number of parsers."""
        self._network, self._inventory = network, inventory
        self._lstm = InferenceLSTM(network.stack)
        self._word_row = to_device(words.row, words.table.device)  # [W + 2]
        self._inputs = self._lstm.project(words.table)  # [rows, 4 * hidden]
        # [rows, hidden] each
        self._as_top = from_words(network, words.table, AS_TOP)
        self._as_below = from_words(network, words.table, AS_BELOW)
        as_front = from_words(network, words.table, AS_FRONT)
        buffers = Buffers.of(network, words, tokens.lengths)
        self._front_row = buffers.row_of_front  # [W + sentences]
        of_word = as_front.index_select(0, buffers.word)  # [W + 1, hidden]
        self._fronts = from_buffer(network, buffers.output, of_word)
        self._stack = StackRows(batch, self._root())
        self._history = History(network, inventory, batch)

    def _root(self) -> StackRow:
        word = self._word_row[-2:-1]
        states = self._lstm.zeros(1)
        self._lstm.advance(self._inputs.index_select(0, word), states, states)
        as_top = from_stack(self._network, self._lstm.output(states), self._as_top.index_select(0, word))
        no_vector = as_top.new_empty(1, 0)
        return StackRow(*states, as_top, self._as_below.index_select(0, word), no_vector)

    def reserve(self, depth: int) -> bool:
        return self._stack.reserve(depth)

    def restart(self, which: Tensor, positions: Positions) -> None:
        self._stack.restart(which)
        self._history.restart(which)

    def scores(self, positions: Positions) -> Tensor:
        fronts = self._fronts.index_select(0, self._front_row.index_select(0, positions.front))
        return state_scores(self._network, self._stack, fronts, self._history.output)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        stack, effects = self._stack, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        written = rows_where(move == 1 - read)
        word = self._word_row.index_select(0, positions.top.index_select(0, written))
        gates = self._inputs.index_select(0, word)  # [n, 4 * hidden]
        before = stack.top - read  # [batch]
        states = stack.states(stack.index(before).index_select(0, written))
        self._lstm.advance(gates, states, states)
        as_top = from_stack(self._network, self._lstm.output(states), self._as_top.index_select(0, word))
        as_below = self._as_below.index_select(0, word)
        stack.write(stack.index(before + 1).index_select(0, written), states, as_top, as_below)
        stack.top += move
        self._history.advance(transitions)


class Member(NamedTuple):
    parsers: InferenceStepper
    number: Tensor
    """[transitions + 1] The member's own number of each transition of the ensemble, and of `no_op`."""


class EnsembleInference:
    """An `InferenceStepper`. The mean of scores is, up to a constant, that of log probabilities."""

    def __init__(self, members: Sequence[Member]):
        self._members = members

    def reserve(self, depth: int) -> bool:
        moved = [member.parsers.reserve(depth) for member in self._members]
        return any(moved)

    def restart(self, which: Tensor, positions: Positions) -> None:
        for member in self._members:
            member.parsers.restart(which, positions)

    def scores(self, positions: Positions) -> Tensor:
        first, *others = (
            member.parsers.scores(positions).index_select(1, member.number[:-1]) for member in self._members
        )
        return sum(others, first) / len(self._members)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        for member in self._members:
            member.parsers.advance(member.number.index_select(0, transitions), positions)


class InferenceStepper(Protocol):
    """Parsers compute the scores of `StackParser.replay`. `restart` all of them first."""

    def reserve(self, depth: int) -> bool:
        """Ensure that stacks have room for `depth` vectors. Returns whether tensors have moved."""

    def restart(self, which: Tensor, positions: Positions) -> None:
        """Reset the parsers where `which` [batch] is True. positions: at which they begin."""

    def scores(self, positions: Positions) -> Tensor:
        """[batch, transitions] Scores in the present states. positions: the present ones."""

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        """Take the transitions [batch]. positions: those afterwards."""


def inference_stepper(
    network: StackParser, inventory: Inventory, tokens: Tokens, words: WordVectors, batch: int
) -> InferenceStepper:
    """tokens: on the host; words: their vectors; batch: number of parsers."""
    kind = ComposingInference if inventory.system.composes else PlainInference
    return kind(network, inventory, tokens, words, batch)
