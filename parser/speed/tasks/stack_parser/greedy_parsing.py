"""Greedy parsing in static batches and unbatched: baselines of the engine, which batches continuously."""

from __future__ import annotations

import torch

from parser.batching.ragged import Padding
from parser.batching.stack_lstm import SteppedLSTM
from parser.models.model import Model
from parser.networks.replay.batch import buffer_rows
from parser.parsing.running_batch import best_transitions, mask_illegal
from parser.speed.tasks.stack_parser.paper_decoder import PaperDecoder
from parser.speed.tasks.stack_parser.stepper import Positions, stepper
from parser.speed.tasks.stack_parser.unbatched import UnbatchedParser
from parser.transitions.system import State
from parser.treebank.vocabulary import Tokens


def parse_one(model: Model, tokens: Tokens) -> State:
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


def _step_unbatched(model: Model, tokens: Tokens) -> State:
    """Like `parse_one`, but for all networks."""
    inventory, state = model.inventory, State.initial(tokens.lengths, device=model.device)
    sentence = torch.zeros_like(state.length)
    positions = Positions.of(state, sentence, tokens.words)
    parsers = stepper(model.network, inventory, tokens, positions.front)
    parsers.reserve(tokens.words + 1)
    inputs = parsers.inputs_at(positions)
    while not inventory.system.finished(state):
        scores = mask_illegal(inventory, state, model.network.score_states(*parsers.outputs(inputs)))
        best = best_transitions(inventory, state, scores)
        inventory.apply(state, best)
        inputs = parsers.inputs_at(Positions.of(state, sentence, tokens.words))
        parsers.advance(best, parsers.transition_inputs(best), inputs)
    return state


def parse_batch(model: Model, tokens: Tokens) -> State:
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
