"""Arc-hybrid (Kuhlmann, Gómez-Rodríguez & Satta 2011): the left arc comes from the buffer."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import POP
from parser.transitions.reducing import RIGHT_ARC, ROOT_ARC, SHIFT, finished
from parser.transitions.state import State
from parser.transitions.system import Gold, Place, Transition, TransitionSystem

LEFT_ARC = Transition("Left-Arc", POP, top=Place.S1, head=Place.B0, dependent=Place.S0, composes=Place.B0)
TRANSITIONS = (LEFT_ARC, RIGHT_ARC, ROOT_ARC, SHIFT)


def legal(state: State) -> Tensor:
    """[batch, transitions] ROOT takes its only dependent last."""
    buffer_has_word = state.front <= state.length
    left = buffer_has_word & (state.depth >= 2)
    right = state.depth >= 3
    root = ~buffer_has_word & (state.depth == 2)
    return torch.stack([left, right, root, buffer_has_word], dim=1)


def oracle(state: State, gold: Gold) -> Tensor:
    """[batch, transitions] An arc as soon as its dependent is complete, else Shift."""
    top, below = state.top(), state.top(below=1)
    head = gold.head_of(state, top)
    complete = gold.is_complete(state, top)
    left = head == state.front
    right = (head == below) & complete & (below > 0)
    root = (head == 0) & complete & (below == 0)
    return torch.stack([left, right, root, torch.ones_like(left)], dim=1)


def costs(state: State, gold: Gold) -> Tensor:
    """[batch, transitions] Goldberg & Nivre 2013, for arc-hybrid."""
    top, below, front = state.top(), state.top(below=1), state.front
    head_of_top, head_of_front = gold.head_of(state, top), gold.head_of(state, front)
    dependents = gold.dependents_in_buffer(state, top)
    left = dependents + ((head_of_top == below) | (head_of_top > front)).long()
    right = dependents + (head_of_top >= front).long()
    head_is_below = state.has_on_stack(head_of_front) & (head_of_front != top)
    shift = head_is_below.long() + gold.dependents_on_stack(state, front)
    return torch.stack([left, right, right, shift], dim=1)


ARC_HYBRID = TransitionSystem("arc-hybrid", TRANSITIONS, finished, legal, oracle, costs)
