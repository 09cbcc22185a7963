"""Parsers that take one transition at a time, without gradients: for parsing and for exploration.

Without composition, words and buffers do not depend on transitions. With it, an arc composes the vectors of
its head and its dependent. The result becomes the vector of the new S0, or of B0, whose state in the buffer
is computed again, see `baselines.stepper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.functional import add_product, times_transposed
from parser.batching.lstm import InferenceLSTM, LSTMStates, write_tanh
from parser.networks.stack_parser import FEATURE_WORDS, StackParser, WordVectors
from parser.replay.batch import front_rows
from parser.transitions.inventory import Effects, Inventory
from parser.transitions.system import Place, Positions, front_positions
from parser.treebank.vocabulary import Tokens

GROUP_ON_CPU = 256
"""Sentences whose buffers run together. In larger groups the gates of a frame do not fit into the cache."""
AS_TOP, AS_BELOW, AS_FRONT = range(FEATURE_WORDS)
"""The places of words whose vectors are features: S0, S1 and B0."""


@dataclass(frozen=True)
class Buffers:
    """The states after the end, in row 0, and after each word.

    The LSTM runs from the end of each sentence to its first word; sentences are sorted by length and run in
    groups, without padding: a frame of a group has a row for each sentence that is long enough.
    """

    states: LSTMStates
    """[words + 1, layers * hidden]"""
    output: Tensor
    """[words + 1, hidden] The hidden states of the top layer."""
    word: Tensor
    """[words + 1] The row of the table of word vectors that each row has read."""
    row_of_front: Tensor
    """[words + sentences] The row of each front, see `front_positions`."""

    @classmethod
    def of(cls, network: StackParser, words: WordVectors, lengths: Tensor) -> Buffers:
        """lengths: [sentences] in words, on the host."""
        device = words.table.device
        # On a GPU all sentences run together, which needs the fewest kernels.
        layout = _Layout.of(lengths, GROUP_ON_CPU if device.type == "cpu" else len(lengths))
        word = to_device(torch.cat([words.row[-1:], words.row[layout.word]]), device)
        lstm = InferenceLSTM(network.buffer)
        states = _run(lstm, lstm.project(words.table), word, layout.groups)
        return cls(states, lstm.output(states), word, to_device(layout.row_of_front, device))

    def states_at(self, fronts: Tensor) -> LSTMStates:
        """A copy of the states at fronts [n]."""
        rows = self.row_of_front.index_select(0, fronts)
        return LSTMStates(self.states.hidden.index_select(0, rows), self.states.cell.index_select(0, rows))


class _Layout(NamedTuple):
    """On the host."""

    word: Tensor
    """[words] The word of each row but the first."""
    row_of_front: Tensor
    """[words + sentences]"""
    groups: list[list[int]]
    """For each group of sentences, the number of rows of each frame but the first."""

    @classmethod
    def of(cls, lengths: Tensor, size: int) -> _Layout:
        """size: sentences of a group."""
        rank = torch.empty_like(lengths)
        rank[lengths.argsort(descending=True, stable=True)] = torch.arange(len(lengths))
        sentence, position = front_positions(lengths)
        front = (position < lengths[sentence]).nonzero().squeeze(1)  # [words] the fronts that are words
        sentence, position = sentence[front], position[front]
        group, frame = rank[sentence] // size, lengths[sentence] - position
        order = torch.from_numpy(np.lexsort([rank[sentence].numpy(), frame.numpy(), group.numpy()]))
        row_of_front = torch.zeros(len(front) + len(lengths), dtype=torch.long)
        row_of_front[front[order]] = torch.arange(1, len(front) + 1)
        return cls(order, row_of_front, _sizes(group, frame))


def _sizes(group: Tensor, frame: Tensor) -> list[list[int]]:
    """For each group, the number of rows of each frame. group, frame: [words] of each row."""
    groups, frames = int(group.max()) + 1, int(frame.max()) + 1
    table = torch.bincount(group * frames + frame, minlength=groups * frames).view(groups, frames)
    return [[size for size in row if size] for row in table.tolist()]


def _run(lstm: InferenceLSTM, inputs: Tensor, word: Tensor, groups: list[list[int]]) -> LSTMStates:
    """inputs: [rows of the table, 4 * hidden], see `InferenceLSTM.project`; word: as in `Buffers`."""
    states = lstm.zeros(len(word))
    end = states.between(0, 1)
    lstm.advance(inputs.index_select(0, word[:1]), end, end)
    start = 1
    for frames in groups:
        previous = LSTMStates(*(part.expand(frames[0], -1) for part in end))
        for size in frames:
            here = states.between(start, start + size)
            gates = inputs.index_select(0, word[start : start + size])
            lstm.advance(gates, previous.between(0, size), here)
            previous, start = here, start + size
    return states


def rows_where(needed: Tensor) -> Tensor:
    """[n] The rows for which something is computed: those where `needed` [batch] is True, or all."""
    if _can_wait_for_count(needed.device):
        return needed.nonzero().squeeze(1)
    return torch.arange(len(needed), device=needed.device)


def replace_rows(table: Tensor, which: Tensor, needed: Tensor, values: Tensor) -> None:
    """Replace the rows of a table [at least batch, size] where `needed` [batch] is True.

    which: [n] as from `rows_where`; values: [n, size].
    """
    if _can_wait_for_count(needed.device):
        table.index_copy_(0, which, values)
    else:
        own = table[: len(needed)]
        own.copy_(torch.where(needed[:, None], values, own))


def _can_wait_for_count(device: torch.device) -> bool:
    """Whether the host may ask how many rows are needed, which would stop a GPU at each step."""
    return device.type == "cpu"


NO_ROW, ROOT = 0, 1
"""Heights: below ROOT, where stacks have no row; and that of ROOT, which no transition replaces."""


class StackRow(NamedTuple):
    """Tensors [rows, size]; of size 0 where the network does not need them."""

    hidden: Tensor
    cell: Tensor
    as_top: Tensor
    """What the row adds to the scores' input as S0."""
    as_below: Tensor
    """What it adds as S1, with word features."""
    vector: Tensor
    """The word vector, which compositions read."""


class StackRows:
    """A batch of stacks with ROOT alone."""

    def __init__(self, batch: int, root: StackRow, capacity: int = 16):
        """root: one row."""
        self._column = torch.arange(batch, device=root.hidden.device)
        self.top = torch.full_like(self._column, ROOT)
        """[batch] The heights of the top rows."""
        self.rows = StackRow(*(part.repeat(capacity * batch, 1) for part in root))
        """[heights * batch, size] Rows of equal height are adjacent, so that stacks can grow."""

    def reserve(self, depth: int) -> bool:
        """Make room for stacks of `depth` rows, and one above them for what is not read.

        Returns whether the rows are in another place now.
        """
        batch = len(self._column)
        needed, present = (depth + 2) * batch, len(self.rows.hidden)
        if needed > present:
            more = max(needed, 2 * present) - present
            grown = (torch.cat([part, part.new_zeros(more, part.shape[1])]) for part in self.rows)
            self.rows = StackRow(*grown)
        return needed > present

    def restart(self, which: Tensor) -> None:
        """Leave only ROOT on the stacks where `which` [batch] is True."""
        self.top.masked_fill_(which, ROOT)

    def index(self, height: Tensor) -> Tensor:
        """[batch] The indices of the rows at heights [batch]."""
        return height * len(self._column) + self._column

    def states(self, index: Tensor) -> LSTMStates:
        """A copy of the states of rows [n]."""
        return LSTMStates(self.rows.hidden.index_select(0, index), self.rows.cell.index_select(0, index))

    def write(self, index: Tensor, states: LSTMStates, as_top: Tensor, as_below: Tensor) -> None:
        """Replace rows [n], but their word vectors."""
        for part, values in zip(self.rows, (*states, as_top, as_below), strict=False):
            part.index_copy_(0, index, values)


class History:
    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        self._lstm = InferenceLSTM(network.history)
        # [transitions + 1, 4 * hidden]
        self._inputs = self._lstm.project(network.transition_embeddings.weight)
        self._first = self._lstm.zeros(1)
        self._lstm.advance(self._inputs[inventory.no_op][None].clone(), self._first, self._first)
        self._states = LSTMStates(*(part.repeat(batch, 1) for part in self._first))

    @property
    def output(self) -> Tensor:
        """[batch, hidden]"""
        return self._lstm.output(self._states)

    def restart(self, which: Tensor) -> None:
        """Return to the state before the first transition where `which` [batch] is True."""
        for first, own in zip(self._first, self._states, strict=True):
            torch.where(which[:, None], first, own, out=own)

    def advance(self, transitions: Tensor) -> None:
        """transitions: [batch]"""
        gates = self._inputs.index_select(0, transitions)  # [batch, 4 * hidden]
        self._lstm.advance(gates, self._states, self._states)


def from_words(network: StackParser, vectors: Tensor, place: int) -> Tensor:
    """[rows, hidden] What words at a place add; [rows, 0] without word features. vectors: [rows, token]"""
    if network.from_words is None:
        return vectors.new_empty(len(vectors), 0)
    return times_transposed(vectors, network.from_words.weight.chunk(FEATURE_WORDS)[place])


def from_stack(network: StackParser, hidden: Tensor, of_word: Tensor) -> Tensor:
    """[rows, hidden] What rows add as S0. hidden: [rows, hidden]; of_word: as from `from_words`."""
    return _with(times_transposed(hidden, network.from_stack.weight, network.from_stack.bias), of_word)


def from_buffer(network: StackParser, hidden: Tensor, of_word: Tensor) -> Tensor:
    """[rows, hidden] What fronts add. hidden: [rows, hidden]; of_word: as from `from_words`."""
    return _with(times_transposed(hidden, network.from_buffer.weight), of_word)


def _with(of_state: Tensor, of_word: Tensor) -> Tensor:
    return of_state.add_(of_word) if of_word.shape[1] else of_state


def state_scores(network: StackParser, stack: StackRows, of_fronts: Tensor, history: Tensor) -> Tensor:
    """[batch, transitions] of_fronts, history: [batch, hidden], the latter the output of its LSTM."""
    joined = stack.rows.as_top.index_select(0, stack.index(stack.top))  # [batch, hidden]
    joined += of_fronts
    if stack.rows.as_below.shape[1]:
        below = (stack.top - 1).clamp(min=ROOT)  # ROOT if it is alone
        joined += stack.rows.as_below.index_select(0, stack.index(below))
    add_product(joined, history, network.from_history.weight)
    return times_transposed(joined.relu_(), network.scores.weight, network.scores.bias)


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
        self._tables = None
        if network.from_arcs:
            from parser.networks.arc_scorer import arc_tables
            self._tables = arc_tables(network.arcs, words.table[self._word_row], tokens.lengths, True)
            self._front_word = to_device(front_rows(tokens), words.table.device)

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
        if self._tables:
            f = self._tables.features(positions.top, positions.below, self._front_word[positions.front])
            fronts = fronts + f @ self._network.from_arcs.weight.T
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
