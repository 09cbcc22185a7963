"""A batch of parsers with composition, in which buffers change as well as stacks.

An arc composes the vectors of its head and its dependent. The result becomes the vector of the new S0, or of
B0, whose state in the buffer is computed again, see `baselines.composing`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.lstm import write_tanh
from parser.batching.product import times_transposed
from parser.batching.transfer import to_device
from parser.networks.stack_parser import StackParser
from parser.replay.batch import front_rows
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
from parser.stepping.stack_lstm import (
    NO_ROW,
    History,
    InferenceLSTM,
    LSTMStates,
    StackRow,
    StackRows,
    replace_rows,
    rows_where,
)
from parser.transitions.inventory import Effects, Inventory
from parser.transitions.system import Place
from parser.treebank.tokens import Tokens


class ComposingInference:
    """The vector of B0 lies below the stack, at the height NO_ROW, so that places are heights."""

    def __init__(
        self, network: StackParser, inventory: Inventory, tokens: Tokens, words: WordVectors, batch: int
    ):
        """tokens: on the host; words: their vectors; batch: number of parsers."""
        assert network.composition is not None
        self._network, self._inventory = network, inventory
        self._stack_lstm, self._buffer_lstm = InferenceLSTM(network.stack), InferenceLSTM(network.buffer)
        self._table = words.table
        self._word_of_front = to_device(words.row[front_rows(tokens)], words.table.device)  # [W + sentences]
        self._buffers = Buffers.of(network, words, tokens.lengths)
        as_front = from_words(network, words.table, AS_FRONT)
        of_word = as_front.index_select(0, self._buffers.word)  # [W + 1, hidden]
        self._all_fronts = from_buffer(network, self._buffers.output, of_word)  # [W + 1, hidden]
        self._fronts = self._all_fronts.new_zeros(batch, self._all_fronts.shape[1])
        self._stack = StackRows(batch, self._root())
        self._history = History(network, inventory, batch)

    def _root(self) -> StackRow:
        vector = self._network.tokens.root[None]
        states = self._stack_lstm.zeros(1)
        self._stack_lstm.advance(self._stack_lstm.project(vector), states, states)
        return StackRow(*states, *self._features(states, vector), vector)

    def _features(self, states: LSTMStates, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """[n, hidden] What rows of the stack add as S0 and as S1."""
        of_word = from_words(self._network, vectors, AS_TOP)
        as_top = from_stack(self._network, self._stack_lstm.output(states), of_word)
        return as_top, from_words(self._network, vectors, AS_BELOW)

    def reserve(self, depth: int) -> bool:
        return self._stack.reserve(depth)

    def restart(self, which: Tensor, positions: Positions) -> None:
        self._stack.restart(which)
        self._history.restart(which)
        self._take_fronts(which, positions)

    def scores(self, positions: Positions) -> Tensor:
        return state_scores(self._network, self._stack, self._fronts, self._history.output)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        stack, effects = self._stack, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        before = stack.top - read
        self._compose(transitions, effects, before + 1)
        self._replace_fronts(effects.composes == Place.B0, positions)
        self._write(effects, before, rows_where(move == 1 - read))
        self._take_fronts(effects.buffer_move == 1, positions)
        stack.top += move
        self._history.advance(transitions)

    def _compose(self, transitions: Tensor, effects: Effects, target: Tensor) -> None:
        """Put composed vectors where the transitions say.

        target: [batch] the heights of the rows that the transitions write.
        """
        place, composition = effects.composes, self._network.composition
        assert composition is not None
        composing = rows_where(place != Place.NOWHERE)
        head, dependent = (self._vectors(part, composing) for part in (effects.head, effects.dependent))
        composed = times_transposed(torch.cat([head, dependent], dim=1), composition.join.weight)
        composed += composition.transitions.weight.index_select(0, transitions.index_select(0, composing))
        write_tanh(composed, out=composed)
        index = self._stack.index(target.masked_fill(place == Place.B0, NO_ROW))
        self._stack.rows.vector.index_copy_(0, index.index_select(0, composing), composed)

    def _vectors(self, place: Tensor, which: Tensor) -> Tensor:
        """[n, token] The vectors at places [batch] of the parsers `which` [n]; any vectors for NOWHERE."""
        index = self._stack.index(self._height(place)).index_select(0, which)
        return self._stack.rows.vector.index_select(0, index)

    def _height(self, place: Tensor) -> Tensor:
        """[batch] The heights of the vectors at places [batch]."""
        on_stack = self._stack.top - (place == Place.S1).long()
        return on_stack.masked_fill(place == Place.B0, NO_ROW)

    def _replace_fronts(self, replaced: Tensor, positions: Positions) -> None:
        """Compute what composed fronts add. replaced: [batch] bool: whose fronts were composed."""
        which = rows_where(replaced)
        vectors = self._stack.rows.vector.index_select(0, which)  # those of B0
        # An empty buffer has no next front, and its end is never replaced.
        last = len(self._buffers.row_of_front) - 1
        previous = self._buffers.states_at((positions.front.index_select(0, which) + 1).clamp(max=last))
        self._buffer_lstm.advance(self._buffer_lstm.project(vectors), previous, previous)
        of_word = from_words(self._network, vectors, AS_FRONT)
        added = from_buffer(self._network, self._buffer_lstm.output(previous), of_word)
        replace_rows(self._fronts, which, replaced, added)

    def _write(self, effects: Effects, before: Tensor, written: Tensor) -> None:
        """Write rows above the heights `before` [batch] of the stacks `written` [n]."""
        stack, target = self._stack, before + 1
        is_composed = effects.composes == Place.S0
        source = torch.where(is_composed, target, self._height(effects.top))
        vectors = stack.rows.vector.index_select(0, stack.index(source).index_select(0, written))
        index = stack.index(target).index_select(0, written)
        stack.rows.vector.index_copy_(0, index, vectors)
        states = stack.states(stack.index(before).index_select(0, written))
        self._stack_lstm.advance(self._stack_lstm.project(vectors), states, states)
        stack.write(index, states, *self._features(states, vectors))

    def _take_fronts(self, taken: Tensor, positions: Positions) -> None:
        """Go on to the fronts at the positions where `taken` [batch] is True."""
        which = rows_where(taken)
        fronts = positions.front.index_select(0, which)
        vectors = self._table.index_select(0, self._word_of_front.index_select(0, fronts))
        replace_rows(self._stack.rows.vector, which, taken, vectors)
        rows = self._buffers.row_of_front.index_select(0, fronts)
        replace_rows(self._fronts, which, taken, self._all_fronts.index_select(0, rows))
