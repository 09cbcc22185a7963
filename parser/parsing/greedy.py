"""Greedy parsing without slots, for comparison: a batch goes on until its longest sentence is done."""

from __future__ import annotations

import torch

from parser.networks import stack_lstm
from parser.networks.naive_stepper import NaiveStepper
from parser.networks.one_by_one import SingleParser
from parser.networks.vector_rows import buffer_tokens
from parser.networks.walk import Standing, walk
from parser.parsing.model import Model
from parser.parsing.slots import best_transitions, legal_scores
from parser.transitions.state import State
from parser.treebank.tokens import Tokens


def parse_one(model: Model, tokens: Tokens) -> State:
    """The final state of one sentence, parsed a transition at a time."""
    network, inventory = model.network, model.inventory
    if not network.is_plain:
        return _walk_alone(model, tokens)
    table = network.tokens(tokens)  # [words + 2, token]
    words = stack_lstm.project(network.stack, table)  # [words + 2, 4 * hidden]
    state, single = State.initial(tokens.lengths, device=model.device), SingleParser(network, inventory)
    length = state.length
    buffer = network.read_buffer(table, [buffer_tokens(length)])  # [words + 1, hidden]
    while not inventory.system.finished(state):
        scores = legal_scores(inventory, state, single.scores(buffer[length + 1 - state.front]))
        best = best_transitions(inventory, state, scores)
        top = inventory.apply(state, best)
        single.advance(int(best), words[top - 1 if top else length])
    return state


def _walk_alone(model: Model, tokens: Tokens) -> State:
    """As `parse_one`, for any network."""
    inventory, state = model.inventory, State.initial(tokens.lengths, device=model.device)
    sentence = torch.zeros_like(state.length)
    standing = Standing.of(state, sentence, tokens.words)
    alone = walk(model.network, inventory, tokens, standing.front)
    alone.reserve(tokens.words + 1)
    seen = alone.seen_from(standing)
    while not inventory.system.finished(state):
        scores = legal_scores(inventory, state, alone.scores(seen))
        best = best_transitions(inventory, state, scores)
        inventory.apply(state, best)
        seen = alone.seen_from(Standing.of(state, sentence, tokens.words))
        alone.advance(best, alone.actions(best), seen)
    return state


def parse_batch(model: Model, tokens: Tokens) -> State:
    """The final state of a batch as the paper decodes it."""
    network, inventory = model.network, model.inventory
    assert network.is_plain
    table = network.tokens(tokens)  # [words + 2, token]
    state = State.initial(tokens.lengths, device=model.device)
    lengths, capacity = state.length, int(tokens.lengths.max()) + 1
    stepper = NaiveStepper(network, inventory, table, buffer_tokens(lengths), capacity)
    while not inventory.system.finished(state).all():
        scores = legal_scores(inventory, state, stepper.scores(lengths + 1 - state.front))
        best = best_transitions(inventory, state, scores)
        top = inventory.apply(state, best)
        stepper.advance(best, torch.where(top > 0, state.base + top, tokens.words))
    return state
