"""Parsers that take one transition at a time, without gradients: for parsing and for exploration.

What depends on words alone is computed into tables when sentences join; the rows of parsed sentences can be
reused. Without composition, words and buffers do not depend on transitions. With composition, an arc composes
the vectors of its head and its dependent. The result becomes the vector of the new S0, or of B0, whose state
in the buffer is then computed again, see `parser.speed.tasks.stack_parser.stepper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.functional import add_product, times_transposed, write_product
from parser.batching.lstm import InferenceLSTM, LSTMStates, write_tanh
from parser.networks.replay.batch import front_rows
from parser.networks.settings import FEATURE_WORDS
from parser.networks.stack_parser import EncodedSentences, StackParser, WordVectors
from parser.networks.stepping.buffers import Buffers, FrontOutputs
from parser.transitions.inventory import Inventory
from parser.transitions.labelled import Effects
from parser.transitions.state import State
from parser.transitions.system import Place
from parser.treebank.tokens import Tokens

AS_TOP, AS_BELOW, AS_FRONT = range(FEATURE_WORDS)
"""The words whose vectors are features: S0, S1 and B0."""


class Positions(NamedTuple):
    """The positions in tables of the words of parsers; [batch] each.

    The words of a sentence have consecutive positions, followed by that of the end of its buffer, as in
    `front_positions`. Position 0 belongs to no word.
    """

    top: Tensor
    """The position of S0; any position for ROOT, which is never pushed."""
    front: Tensor
    """The position of B0, or of the end of the buffer."""

    @classmethod
    def of(cls, state: State, before: Tensor) -> Positions:
        """before: [batch] the position before the first word of each sentence."""
        return cls(before + state.top(), before + state.front)


ROOM = 4
"""The factor by which tables that grow exceed the rows that are needed."""
Table = TypeVar("Table", bound=tuple[Tensor, ...])


def with_room(tables: Table, rows: int, room: int = ROOM) -> Table:
    """Tables [>= rows, ...] that start with the given ones; the given ones if they are large enough.

    room: the factor for the rows that are needed; 1 if `rows` includes room already. New rows of integer
    tables are 0.
    """
    present = len(tables[0])
    if rows <= present:
        return tables
    # Memory that is not written costs nothing, and tables that grow are copied.
    larger = [table.new_empty(room * rows, *table.shape[1:]) for table in tables]
    for grown, table in zip(larger, tables, strict=True):
        grown[:present] = table
        if not table.is_floating_point():
            grown[present:] = 0
    return type(tables)(*larger)


def rows_where(needed: Tensor) -> Tensor:
    """[n] The rows to compute: those where `needed` [batch] is True; on a GPU, all."""
    if _can_wait_for_count(needed.device):
        return needed.nonzero().squeeze(1)
    return torch.arange(len(needed), device=needed.device)


def replace_rows(table: Tensor, which: Tensor, needed: Tensor, values: Tensor) -> None:
    """Replace the rows of a table [at least batch, size] where `needed` [batch] is True.

    which: [n] from `rows_where`; values: [n, size].
    """
    if _can_wait_for_count(needed.device):
        table.index_copy_(0, which, values)
    else:
        rows = table[: len(needed)]
        rows.copy_(torch.where(needed[:, None], values, rows))


def _can_wait_for_count(device: torch.device) -> bool:
    """Whether the host can ask how many rows are needed; on a GPU this would cause a wait at each step."""
    return device.type == "cpu"


NO_ROW, ROOT = 0, 1
"""Heights: the one below ROOT, where stacks have no row, and that of ROOT, which no transition replaces."""


class StackRow(NamedTuple):
    """Tensors [rows, size]; of size 0 if the network does not need them."""

    hidden: Tensor
    cell: Tensor
    as_top: Tensor
    """What the row adds to the scores' input as S0."""
    as_below: Tensor
    """What the row adds as S1, with word features."""
    vector: Tensor
    """The word vector, which compositions read."""


FIRST_CAPACITY = 16
"""Rows of each stack at first; stacks grow."""


class StackRows:
    """A batch of stacks, which at first contain only ROOT."""

    def __init__(self, batch: int, root: StackRow):
        """root: one row."""
        self._column = torch.arange(batch, device=root.hidden.device)
        self.top = torch.full_like(self._column, ROOT)
        """[batch] The heights of the top rows."""
        self.rows = StackRow(*(part.repeat(FIRST_CAPACITY * batch, 1) for part in root))
        """[heights * batch, size] Rows of equal height are adjacent, so that stacks can grow."""

    def reserve(self, depth: int) -> bool:
        """Make room for stacks of `depth` rows, and for one more row, which is not read.

        Returns whether the rows have moved.
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

    def select(self, stacks: Tensor) -> None:
        """Continue with the stacks [n], which can contain duplicates."""
        heights = len(self.rows.hidden) // len(self._column)
        self._column = torch.arange(len(stacks), device=stacks.device)
        self.top = self.top.index_select(0, stacks)
        self.rows = StackRow(
            *(
                part.view(heights, len(part) // heights, part.shape[1]).index_select(1, stacks).flatten(0, 1)
                for part in self.rows
            )
        )

    def index(self, height: Tensor) -> Tensor:
        """[batch] The indices of the rows at heights [batch]."""
        return height * len(self._column) + self._column

    def states(self, index: Tensor) -> LSTMStates:
        """A copy of the states of rows [n]."""
        return LSTMStates(self.rows.hidden.index_select(0, index), self.rows.cell.index_select(0, index))

    def write(self, index: Tensor, states: LSTMStates, as_top: Tensor, as_below: Tensor) -> None:
        """Replace rows [n], except for their word vectors."""
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
        for first, states in zip(self._first, self._states, strict=True):
            torch.where(which[:, None], first, states, out=states)

    def select(self, rows: Tensor) -> None:
        """Like `StackRows.select`."""
        self._states = LSTMStates(*(part.index_select(0, rows) for part in self._states))

    def advance(self, transitions: Tensor) -> None:
        """Read the transitions [batch]."""
        gates = self._inputs.index_select(0, transitions)  # [batch, 4 * hidden]
        self._lstm.advance(gates, self._states, self._states)


def from_words(network: StackParser, vectors: Tensor, feature: int) -> Tensor:
    """[rows, hidden] What words add as a feature, see `AS_TOP`; [rows, 0] without word features.

    vectors: [rows, token].
    """
    if network.from_words is None:
        return vectors.new_empty(len(vectors), 0)
    return times_transposed(vectors, network.from_words.weight.chunk(FEATURE_WORDS)[feature])


def from_stack(network: StackParser, hidden: Tensor, of_word: Tensor) -> Tensor:
    """[rows, hidden] What rows add as S0. hidden: [rows, hidden]; of_word: as from `from_words`."""
    return _with(times_transposed(hidden, network.from_stack.weight, network.from_stack.bias), of_word)


def from_buffer(network: StackParser, hidden: Tensor, of_word: Tensor) -> Tensor:
    """[rows, hidden] What fronts add. hidden: [rows, hidden]; of_word: as from `from_words`."""
    return _with(times_transposed(hidden, network.from_buffer.weight), of_word)


def write_from_words(network: StackParser, vectors: Tensor, feature: int, out: Tensor) -> None:
    """Like `from_words`, for a network with word features. out: [rows, hidden]"""
    assert network.from_words is not None
    write_product(out, vectors, network.from_words.weight.chunk(FEATURE_WORDS)[feature])


def stack_features(network: StackParser, hidden: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """[rows, hidden] What rows of the stack add as S0 and as S1. vectors: [rows, token]"""
    as_top = from_stack(network, hidden, from_words(network, vectors, AS_TOP))
    return as_top, from_words(network, vectors, AS_BELOW)


def _root(network: StackParser) -> StackRow:
    """The row of ROOT."""
    vector, lstm = network.tokens.root[None], InferenceLSTM(network.stack)
    states = lstm.zeros(1)
    lstm.advance(lstm.project(vector), states, states)
    return StackRow(*states, *stack_features(network, lstm.output(states), vector), vector)


def _with(of_state: Tensor, of_word: Tensor) -> Tensor:
    return of_state.add_(of_word) if of_word.shape[1] else of_state


def state_scores(network: StackParser, stack: StackRows, of_fronts: Tensor, history: Tensor) -> Tensor:
    """[batch, transitions] The scores.

    of_fronts: [batch, hidden] what fronts add. history: [batch, hidden] the output of its LSTM.
    """
    joined = stack.rows.as_top.index_select(0, stack.index(stack.top))  # [batch, hidden]
    joined += of_fronts
    if stack.rows.as_below.shape[1]:
        below = (stack.top - 1).clamp(min=ROOT)  # ROOT if the stack contains nothing else
        joined += stack.rows.as_below.index_select(0, stack.index(below))
    add_product(joined, history, network.from_history.weight)
    return times_transposed(joined.relu_(), network.scores.weight, network.scores.bias)


class UncomposedTables(NamedTuple):
    word_row: Tensor
    """[positions] The row of each word."""
    front_row: Tensor
    """[positions] The row of each front."""
    inputs: Tensor
    """[rows, 4 * hidden] What words add to the gates of the stack's LSTM."""
    as_top: Tensor
    """[rows, hidden] What words add to the scores' input as S0, apart from its state."""
    as_below: Tensor
    """[rows, hidden] What words add as S1."""
    fronts: Tensor
    """[rows, hidden] What fronts add."""


class UncomposedInference:
    """Parsers without composition: words and buffers do not depend on transitions."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        """batch: number of parsers."""
        self._network, self._inventory = network, inventory
        self._lstm = InferenceLSTM(network.stack)
        root = _root(network)
        no_row, size = (
            root.as_top.new_zeros(1, dtype=torch.long),
            root.as_top.new_zeros(1, network.scores.in_features),
        )
        self._tables = UncomposedTables(no_row, no_row, size.repeat(1, 4), root.as_below, root.as_below, size)
        self._stack = StackRows(batch, root._replace(vector=root.vector[:, :0]))
        self._history = History(network, inventory, batch)

    def join(self, start: int, sentences: Sequence[EncodedSentences]) -> bool:
        [(tokens, words)] = sentences
        before = self._tables
        self._tables = tables = with_room(before, start + sentences[0].positions)
        buffers = FrontOutputs.of(self._network, words, tokens.lengths)
        of_words = slice(start, start + len(words.table))
        self._lstm.write_projection(words.table, out=tables.inputs[of_words])
        if self._network.from_words is not None:
            write_from_words(self._network, words.table, AS_TOP, out=tables.as_top[of_words])
            write_from_words(self._network, words.table, AS_BELOW, out=tables.as_below[of_words])
        _write_positions(self._network, tables, start, tokens, words, buffers)
        return tables is not before

    def reserve(self, depth: int) -> bool:
        return self._stack.reserve(depth)

    def select(self, parsers: Tensor) -> None:
        self._stack.select(parsers)
        self._history.select(parsers)

    def restart(self, which: Tensor, positions: Positions) -> None:
        self._stack.restart(which)
        self._history.restart(which)

    def scores(self, positions: Positions) -> Tensor:
        rows = self._tables.front_row.index_select(0, positions.front)
        fronts = self._tables.fronts.index_select(0, rows)
        return state_scores(self._network, self._stack, fronts, self._history.output)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        stack, effects, tables = self._stack, self._inventory.effects(transitions), self._tables
        read, move = effects.stack_read, effects.stack_move
        written = rows_where(move == 1 - read)
        word = tables.word_row.index_select(0, positions.top.index_select(0, written))
        gates = tables.inputs.index_select(0, word)  # [n, 4 * hidden]
        before = stack.top - read  # [batch]
        states = stack.states(stack.index(before).index_select(0, written))
        self._lstm.advance(gates, states, states)
        as_top = from_stack(self._network, self._lstm.output(states), tables.as_top.index_select(0, word))
        as_below = tables.as_below.index_select(0, word)
        stack.write(stack.index(before + 1).index_select(0, written), states, as_top, as_below)
        stack.top += move
        self._history.advance(transitions)


class ComposingTables(NamedTuple):
    word_row: Tensor
    """[positions] The row of each word, and of the end."""
    front_row: Tensor
    """[positions] The row of each front."""
    vectors: Tensor
    """[rows, token] The vectors of words."""
    hidden: Tensor
    """[rows, layers * hidden] The states of the buffers at fronts."""
    cell: Tensor
    """[rows, layers * hidden]"""
    fronts: Tensor
    """[rows, hidden] What fronts add."""


def _write_positions(
    network: StackParser,
    tables: UncomposedTables | ComposingTables,
    start: int,
    tokens: Tokens,
    words: WordVectors,
    buffers: FrontOutputs | Buffers,
) -> None:
    """Write what both kinds of tables keep of sentences: what fronts add, and the rows of words and fronts.

    start: the first row, and the first position, of these sentences.
    """
    fronts = tables.fronts[start : start + len(buffers.word)]  # [W + 1, hidden]
    write_product(fronts, buffers.output, network.from_buffer.weight)
    if network.from_words is not None:
        fronts += from_words(network, words.table, AS_FRONT).index_select(0, buffers.word)
    positions = slice(start, start + len(buffers.row_of_front))
    word_row = to_device(words.row[front_rows(tokens)], words.table.device)  # of each word and of the end
    tables.word_row[positions] = word_row + start
    tables.front_row[positions] = buffers.row_of_front + start


class ComposingInference:
    """Parsers with composition.

    The vector of B0 is stored below the stack, at the height NO_ROW, so that each `Place` is a height.
    """

    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        """batch: number of parsers."""
        assert network.composition is not None
        self._network, self._inventory = network, inventory
        self._stack_lstm, self._buffer_lstm = InferenceLSTM(network.stack), InferenceLSTM(network.buffer)
        root = _root(network)
        no_row, states = root.as_top.new_zeros(1, dtype=torch.long), self._buffer_lstm.zeros(1)
        self._tables = ComposingTables(no_row, no_row, root.vector, *states, root.as_top)
        self._fronts = root.as_top.repeat(batch, 1)
        self._stack = StackRows(batch, root)
        self._history = History(network, inventory, batch)

    def join(self, start: int, sentences: Sequence[EncodedSentences]) -> bool:
        [(tokens, words)] = sentences
        before = self._tables
        self._tables = tables = with_room(before, start + sentences[0].positions)
        buffers = Buffers.of(self._network, words, tokens.lengths)
        of_fronts = slice(start, start + len(buffers.word))
        tables.hidden[of_fronts], tables.cell[of_fronts] = buffers.states
        tables.vectors[start : start + len(words.table)] = words.table
        _write_positions(self._network, tables, start, tokens, words, buffers)
        return tables is not before

    def _features(self, states: LSTMStates, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """[n, hidden] What rows of the stack add as S0 and as S1."""
        return stack_features(self._network, self._stack_lstm.output(states), vectors)

    def reserve(self, depth: int) -> bool:
        return self._stack.reserve(depth)

    def select(self, parsers: Tensor) -> None:
        self._stack.select(parsers)
        self._history.select(parsers)
        self._fronts = self._fronts.index_select(0, parsers)

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

    def _compose(self, transitions: Tensor, effects: Effects[Tensor], target: Tensor) -> None:
        """Compute composed vectors, and put them where the transitions determine.

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
        """[n, token] The vectors at each `Place` [batch] of the parsers `which` [n]; any for NOWHERE."""
        index = self._stack.index(self._height(place)).index_select(0, which)
        return self._stack.rows.vector.index_select(0, index)

    def _height(self, place: Tensor) -> Tensor:
        """[batch] The heights of the vectors at each `Place` [batch]."""
        on_stack = self._stack.top - (place == Place.S1).long()
        return on_stack.masked_fill(place == Place.B0, NO_ROW)

    def _replace_fronts(self, replaced: Tensor, positions: Positions) -> None:
        """Compute what composed fronts add. replaced: [batch] bool: which parsers composed their front."""
        which = rows_where(replaced)
        vectors = self._stack.rows.vector.index_select(0, which)  # the vectors of B0
        # An empty buffer has no next front, and its end is never replaced.
        last = len(self._tables.front_row) - 1
        following = (positions.front.index_select(0, which) + 1).clamp(max=last)
        rows = self._tables.front_row.index_select(0, following)
        hidden, cell = (part.index_select(0, rows) for part in (self._tables.hidden, self._tables.cell))
        previous = LSTMStates(hidden, cell)
        self._buffer_lstm.advance(self._buffer_lstm.project(vectors), previous, previous)
        of_word = from_words(self._network, vectors, AS_FRONT)
        added = from_buffer(self._network, self._buffer_lstm.output(previous), of_word)
        replace_rows(self._fronts, which, replaced, added)

    def _write(self, effects: Effects[Tensor], before: Tensor, written: Tensor) -> None:
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
        """Advance to the fronts at their positions where `taken` [batch] is True."""
        which = rows_where(taken)
        fronts = positions.front.index_select(0, which)
        vectors = self._tables.vectors.index_select(0, self._tables.word_row.index_select(0, fronts))
        replace_rows(self._stack.rows.vector, which, taken, vectors)
        rows = self._tables.front_row.index_select(0, fronts)
        replace_rows(self._fronts, which, taken, self._tables.fronts.index_select(0, rows))


class Member(NamedTuple):
    parsers: InferenceStepper
    number: Tensor
    """[transitions + 1] The member's own number of each transition of the ensemble, and of `no_op`."""


class EnsembleInference:
    """An `InferenceStepper` of several models, which averages their scores.

    Up to a constant, the mean of scores is that of log probabilities.
    """

    def __init__(self, members: Sequence[Member]):
        self._members = members

    def join(self, start: int, sentences: Sequence[EncodedSentences]) -> bool:
        moved = [
            member.parsers.join(start, [its_sentences])
            for member, its_sentences in zip(self._members, sentences, strict=True)
        ]
        return any(moved)

    def reserve(self, depth: int) -> bool:
        moved = [member.parsers.reserve(depth) for member in self._members]
        return any(moved)

    def restart(self, which: Tensor, positions: Positions) -> None:
        for member in self._members:
            member.parsers.restart(which, positions)

    def select(self, parsers: Tensor) -> None:
        for member in self._members:
            member.parsers.select(parsers)

    def scores(self, positions: Positions) -> Tensor:
        first, *others = (
            member.parsers.scores(positions).index_select(1, member.number[:-1]) for member in self._members
        )
        return sum(others, first) / len(self._members)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        for member in self._members:
            member.parsers.advance(member.number.index_select(0, transitions), positions)


class InferenceStepper(Protocol):
    """Parsers that compute the scores of `StackParser.replay`. `restart` each at a sentence first."""

    def join(self, start: int, sentences: Sequence[EncodedSentences]) -> bool:
        """Compute what depends on the words of sentences alone, into positions from `start` on.

        start: at least 1. sentences: as each network encodes them. Returns whether tensors have moved.
        """

    def reserve(self, depth: int) -> bool:
        """Ensure that stacks have room for `depth` vectors. Returns whether tensors have moved."""

    def select(self, parsers: Tensor) -> None:
        """Continue with the parsers [n], which can contain duplicates. Afterwards, tensors have moved."""

    def restart(self, which: Tensor, positions: Positions) -> None:
        """Reset the parsers where `which` [batch] is True. positions: those at which they start."""

    def scores(self, positions: Positions) -> Tensor:
        """[batch, transitions] The scores in the current states. positions: the current ones."""

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        """Take the transitions [batch]. positions: those afterwards."""


def inference_stepper(network: StackParser, inventory: Inventory, batch: int) -> InferenceStepper:
    """A stepper for a network. batch: number of parsers."""
    kind = ComposingInference if inventory.system.composes else UncomposedInference
    return kind(network, inventory, batch)
