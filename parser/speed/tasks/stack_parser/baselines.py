"""Slower ways of running the parser: without batching, and with the batched decoder of Ding & Koehn 2019.

Both score gold transitions, for training, and parse greedily, until all sentences are done.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.lstm import run_cell
from parser.batching.ragged import Padding
from parser.batching.stack_lstm import SteppedLSTM, output
from parser.models.network_model import NetworkModel
from parser.networks.replay.batch import Batch, buffer_rows
from parser.networks.stack_parser import StackParser
from parser.parsing.pytorch.running_batch import best_transitions, mask_illegal
from parser.speed.tasks.stack_parser.stepper import StatePositions, stepper
from parser.transitions.inventory import Inventory
from parser.transitions.state import State
from parser.treebank.tokens import Tokens


class UnbatchedParser:
    """Stack and history of one sentence; the stack is a Python list. Unlike in batches, a pop needs no LSTM
    call.
    """

    def __init__(self, network: StackParser, inventory: Inventory):
        self._network = network
        effects = inventory.effects(torch.arange(len(inventory) + 1, device=inventory.kind.device))
        self._operations = list(zip(effects.stack_read.tolist(), effects.stack_move.tolist(), strict=True))
        self._stack_lstm, self._history_lstm = SteppedLSTM(network.stack), SteppedLSTM(network.history)
        self._transitions = network.transition_embeddings.weight
        self._stack = [self._stack_lstm.first(network.tokens.root)]
        self._history = self._history_lstm.first(self._transitions[inventory.no_op])

    def scores(self, buffer: Tensor) -> Tensor:
        """[1, transitions] buffer: [1, hidden], the output of `StackParser.project_buffer` for the front."""
        return self._network.score_states(output(self._stack[-1]), buffer, output(self._history))

    def advance(self, transition: int, word: Tensor) -> None:
        """Take a transition. word: [1, 4 * hidden], the projected vector of the word that is then on top."""
        stack = self._stack
        read, move = self._operations[transition]
        below = len(stack) - read
        if move == 1 - read:
            stack[below:] = [self._stack_lstm.advance(word, stack[below - 1])]
        else:
            del stack[len(stack) + move :]
        projected = self._history_lstm.project(self._transitions[transition, None])
        self._history = self._history_lstm.advance(projected, self._history)


def score_sentence(network: StackParser, inventory: Inventory, table: Tensor, batch: Batch) -> Tensor:
    """[S, transitions] The scores of `StackParser.replay_words`, for a batch of one sentence.

    table: [W + 2, token], see `EncodedWords`.
    """
    assert network.is_of_ding_and_koehn
    assert batch.sentences == 1
    words = SteppedLSTM(network.stack).project(table)  # [W + 2, 4 * hidden]
    buffer = network.project_buffer(table, batch.buffer_tokens)  # [frames, hidden]
    parser, scores = UnbatchedParser(network, inventory), []
    steps = zip(
        batch.transitions.tolist(),
        words[batch.top_vector].split(1),
        buffer[batch.buffer_row].split(1),
        strict=True,
    )
    for transition, word, front in steps:
        scores.append(parser.scores(front))
        parser.advance(transition, word)
    return torch.cat(scores)


def parse_one(model: NetworkModel, tokens: Tokens) -> State:
    """Parse one sentence without batching; return its final state."""
    network, inventory = model.network, model.inventory
    if not network.is_of_ding_and_koehn:
        return _step_unbatched(model, tokens)
    table = network.word_table(tokens)  # [words + 2, token]
    words = SteppedLSTM(network.stack).project(table)  # [words + 2, 4 * hidden]
    state, parser = State.initial(tokens.lengths, device=model.device), UnbatchedParser(network, inventory)
    length = state.length
    frames = buffer_rows(length, Padding.of(tokens.lengths + 1, None), tokens.words)
    buffer = network.project_buffer(table, frames)  # [words + 1, hidden]
    while not inventory.system.finished(state):
        scores = mask_illegal(inventory, state, parser.scores(buffer[length + 1 - state.front]))
        best = best_transitions(inventory, state, scores)
        top = inventory.apply(state, best)
        parser.advance(int(best), words[top - 1 if top else length])
    return state


def _step_unbatched(model: NetworkModel, tokens: Tokens) -> State:
    """Like `parse_one`, but for all networks."""
    inventory, state = model.inventory, State.initial(tokens.lengths, device=model.device)
    sentence = torch.zeros_like(state.length)
    positions = StatePositions.of(state, sentence, tokens.words)
    parsers = stepper(model.network, inventory, model.network.word_table(tokens), tokens, positions.front)
    parsers.memory.reserve(tokens.words + 1)
    inputs = parsers.inputs_at(positions)
    while not inventory.system.finished(state):
        scores = mask_illegal(inventory, state, model.network.score_states(*parsers.outputs(inputs)))
        best = best_transitions(inventory, state, scores)
        inventory.apply(state, best)
        inputs = parsers.inputs_at(StatePositions.of(state, sentence, tokens.words))
        parsers.advance(best, parsers.memory.transition_inputs(best), inputs)
    return state


def parse_batch(model: NetworkModel, tokens: Tokens) -> State:
    """Parse a static batch with the paper's decoder until all sentences are done; return the final states."""
    network, inventory = model.network, model.inventory
    assert network.is_of_ding_and_koehn
    table = network.word_table(tokens)  # [words + 2, token]
    state = State.initial(tokens.lengths, device=model.device)
    padding = Padding.of(tokens.lengths + 1, None)
    [frames] = buffer_rows(state.length, padding, tokens.words)
    decoder = PaperDecoder(network, inventory, table, frames, state.length, len(frames))
    while not inventory.system.finished(state).all():
        scores = mask_illegal(inventory, state, decoder.scores())
        best = best_transitions(inventory, state, scores)
        top = inventory.apply(state, best)
        decoder.advance(best, torch.where(top > 0, state.base + top, tokens.words))
    return state


CELL_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""The parameters of a layer, in the order of the arguments of `torch.lstm_cell`."""
States = tuple[Tensor, Tensor]
"""Hidden and cell states, [batch, layers, hidden] each."""


class PaperStackLSTM:
    """A batch of stacks of LSTM states. Supports push, pop and hold, and two kinds of replacement."""

    def __init__(self, lstm: nn.LSTM, first: Tensor, depth: int):
        """first: [batch, input] The vectors at the bottom. depth: the greatest number of vectors."""
        self._lstm, self._column = lstm, torch.arange(len(first), device=first.device)
        bottom = _frame(lstm, first, _zeros(lstm, first))
        # [depth + 2, batch, layers, hidden]
        self._hidden, self._cell = (first.new_zeros(depth + 2, *states.shape) for states in bottom)
        self._hidden[1], self._cell[1] = bottom
        self._pointer = torch.ones_like(self._column)

    @property
    def output(self) -> Tensor:
        """[batch, hidden] The hidden state of the top layer, at the top of each stack."""
        return self._hidden[self._pointer, self._column, -1]

    def operate(self, read: Tensor, move: Tensor, vectors: Tensor) -> None:
        """Apply one operation to each stack.

        read, move: [batch], see `StackOperation`. vectors: [batch, input], which do not affect pops.
        """
        below = self._pointer - read
        previous = self._hidden[below, self._column], self._cell[below, self._column]
        hidden, cell = _frame(self._lstm, vectors, previous)
        self._hidden[below + 1, self._column] = hidden
        self._cell[below + 1, self._column] = cell
        self._pointer = self._pointer + move


class FilledStackLSTM:
    """A batch of StackLSTMs after their last push: the outputs of the LSTM, and pointers to the tops."""

    def __init__(self, lstm: nn.LSTM, vectors: Tensor, heights: Tensor):
        """vectors: [frames, batch, input] The pushed vectors, from the bottom; frames above `heights` [batch]
        are padding."""
        self._column = torch.arange(vectors.shape[1], device=vectors.device)
        states, outputs = _zeros(lstm, vectors[0]), []
        for frame in vectors:
            states = _frame(lstm, frame, states)
            outputs.append(states[0][:, -1])
        self._outputs = torch.stack(outputs)  # [frames, batch, hidden]
        self._pointer = heights - 1

    @property
    def output(self) -> Tensor:
        """[batch, hidden] See `PaperStackLSTM.output`."""
        return self._outputs[self._pointer, self._column]

    def pop_or_hold(self, popped: Tensor) -> None:
        """popped: [batch] The number of vectors to pop, 1 or 0."""
        self._pointer = self._pointer - popped


class PaperDecoder:
    """Stacks, buffers and histories of a batch of parsers (Ding & Koehn 2019, section 3).

    Stack and buffer are StackLSTMs, each with its own pointer to the top. `PUSH`, `POP` and `HOLD` are one
    operation without branches: it gathers hidden and cell states by index, runs one frame of the LSTM with
    `torch.lstm_cell`, including the input product, and writes the states back by index. `stepper.py` is the
    same algorithm, but computes input products in advance.

    The words are pushed to the buffer before the first transition, from right to left. Afterwards it is only
    popped and held. The frame of a pop or hold is never read (Observation 2), so the buffer does not compute
    it, as in the authors' program (github.com/shuoyangd/hoolock, `StateStack`).
    """

    def __init__(
        self,
        network: StackParser,
        inventory: Inventory,
        table: Tensor,
        buffer_tokens: Tensor,
        lengths: Tensor,
        depth: int,
    ):
        """table: [W + 2, token]. buffer_tokens: [frames, batch], see `Batch`. lengths: [batch], in words.
        depth: greatest stack depth."""
        self._network, self._inventory, self._table = network, inventory, table
        batch = len(lengths)
        self._stack = PaperStackLSTM(network.stack, network.tokens.root.expand(batch, -1), depth)
        self._buffer = FilledStackLSTM(network.buffer, table[buffer_tokens], lengths + 1)
        start = network.transition_embeddings(torch.full_like(lengths, inventory.no_op))
        self._history = _frame(network.history, start, _zeros(network.history, start))

    def scores(self) -> Tensor:
        """[batch, transitions]"""
        network = self._network
        hidden = (
            network.from_stack(self._dropout(self._stack.output))
            + network.from_buffer(self._dropout(self._buffer.output))
            + network.from_history(self._dropout(self._history[0][:, -1]))
        )
        return network.scores(self._dropout(F.relu(hidden)))

    def _dropout(self, states: Tensor) -> Tensor:
        return F.dropout(states, self._network.dropout, self._network.training)

    def advance(self, transitions: Tensor, words: Tensor) -> None:
        """Take the transitions [batch]. words: [batch], table rows of the words that are then on top."""
        network, effects = self._network, self._inventory.effects(transitions)
        self._stack.operate(effects.stack_read, effects.stack_move, self._table[words])
        self._buffer.pop_or_hold(effects.buffer_move)
        self._history = _frame(network.history, network.transition_embeddings(transitions), self._history)


def _zeros(lstm: nn.LSTM, vectors: Tensor) -> States:
    """The states before the first frame. vectors: [batch, input]."""
    states = vectors.new_zeros(len(vectors), lstm.num_layers, lstm.hidden_size)
    return states, states


def _frame(lstm: nn.LSTM, inputs: Tensor, before: States) -> States:
    """Run one frame through all layers. inputs: [batch, input]."""
    hidden, cell = [], []
    for layer in range(lstm.num_layers):
        if layer:
            inputs = F.dropout(inputs, lstm.dropout, lstm.training)
        weights = [getattr(lstm, f"{name}_l{layer}") for name in CELL_WEIGHTS]
        states = run_cell(inputs, (before[0][:, layer], before[1][:, layer]), weights)
        inputs = states[0]
        hidden.append(states[0])
        cell.append(states[1])
    return torch.stack(hidden, dim=1), torch.stack(cell, dim=1)


def score_with_paper_decoder(
    network: StackParser, inventory: Inventory, table: Tensor, batch: Batch
) -> Tensor:
    """[S, transitions] The scores of `StackParser.replay_words`, computed by the decoder of the paper.

    table: [W + 2, token], see `EncodedWords`.
    """
    assert network.is_of_ding_and_koehn
    [buffer_tokens] = batch.buffer_tokens
    lengths = to_device(batch.tokens.lengths, table.device)
    decoder = PaperDecoder(network, inventory, table, buffer_tokens, lengths, len(batch.forest.levels))
    each_step = zip(
        batch.by_step(batch.transitions, inventory.no_op),
        batch.by_step(batch.top_vector, batch.tokens.words + 1),
        strict=True,
    )
    scores = []
    for taken, word in each_step:
        scores.append(decoder.scores())
        decoder.advance(taken, word)
    return torch.cat(scores)[batch.step]
