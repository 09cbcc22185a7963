"""Inference without composition: words and buffers do not depend on transitions."""

from __future__ import annotations

from torch import Tensor

from parser.batching.transfer import to_device
from parser.networks.stack_parser import StackParser
from parser.stepping.inference import features
from parser.stepping.inference.buffers import Buffers
from parser.stepping.inference.features import AS_BELOW, AS_FRONT, AS_TOP
from parser.stepping.inference.history import History
from parser.stepping.inference.lstm import InferenceLSTM
from parser.stepping.inference.stack_rows import StackRow, StackRows
from parser.stepping.inference.subsets import rows_where
from parser.stepping.inference.words import WordVectors
from parser.stepping.positions import Positions
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens


class PlainInference:
    def __init__(
        self, network: StackParser, inventory: Inventory, tokens: Tokens, words: WordVectors, batch: int
    ):
        """tokens: on the host; words: their vectors; batch: number of parsers."""
        self._network, self._inventory = network, inventory
        self._lstm = InferenceLSTM(network.stack)
        self._word_row = to_device(words.row, words.table.device)  # [W + 2]
        self._inputs = self._lstm.project(words.table)  # [rows, 4 * hidden]
        # [rows, hidden] each
        self._as_top = features.of_words(network, words.table, AS_TOP)
        self._as_below = features.of_words(network, words.table, AS_BELOW)
        as_front = features.of_words(network, words.table, AS_FRONT)
        buffers = Buffers.of(network, words, tokens.lengths)
        self._front_row = buffers.row_of_front  # [W + sentences]
        of_word = as_front.index_select(0, buffers.word)  # [W + 1, hidden]
        self._fronts = features.of_buffer(network, buffers.output, of_word)
        self._stack = StackRows(batch, self._root())
        self._history = History(network, inventory, batch)

    def _root(self) -> StackRow:
        word = self._word_row[-2:-1]
        states = self._lstm.zeros(1)
        self._lstm.advance(self._inputs.index_select(0, word), states, states)
        as_top = features.of_stack(
            self._network, self._lstm.output(states), self._as_top.index_select(0, word)
        )
        no_vector = as_top.new_empty(1, 0)
        return StackRow(*states, as_top, self._as_below.index_select(0, word), no_vector)

    def reserve(self, depth: int) -> bool:
        return self._stack.reserve(depth)

    def restart(self, which: Tensor, positions: Positions) -> None:
        self._stack.restart(which)
        self._history.restart(which)

    def scores(self, positions: Positions) -> Tensor:
        fronts = self._fronts.index_select(0, self._front_row.index_select(0, positions.front))
        return features.scores(self._network, self._stack, fronts, self._history.output)

    def advance(self, transitions: Tensor, positions: Positions) -> None:
        stack, effects = self._stack, self._inventory.effects(transitions)
        read, move = effects.stack_read, effects.stack_move
        written = rows_where(move == 1 - read)
        word = self._word_row.index_select(0, positions.top.index_select(0, written))
        gates = self._inputs.index_select(0, word)  # [n, 4 * hidden]
        before = stack.top - read  # [batch]
        states = stack.states(stack.index(before).index_select(0, written))
        self._lstm.advance(gates, states, states)
        as_top = features.of_stack(
            self._network, self._lstm.output(states), self._as_top.index_select(0, word)
        )
        as_below = self._as_below.index_select(0, word)
        stack.write(stack.index(before + 1).index_select(0, written), states, as_top, as_below)
        stack.top += move
        self._history.advance(transitions)
