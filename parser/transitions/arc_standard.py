"""Arc-standard (Nivre 2004): both arcs join the two words on top of the stack."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import POP, PUSH, REDUCE_AND_REPLACE
from parser.transitions.state import State
from parser.transitions.system import Gold, Place, Transition, TransitionSystem

TRANSITIONS = (
    Transition("Left-Arc", REDUCE_AND_REPLACE, top=Place.S0, head=Place.S0, dependent=Place.S1),
    Transition("Right-Arc", POP, top=Place.S1, head=Place.S1, dependent=Place.S0),
    Transition("Root-Arc", POP, top=Place.S1, head=Place.S1, dependent=Place.S0, from_root=True),
    Transition("Shift", PUSH, top=Place.B0, takes_front=True),
)


def finished(state: State) -> Tensor:
    """[batch] When the buffer is empty and ROOT alone on the stack."""
    return (state.front > state.length) & (state.depth == 1)


def legal(state: State) -> Tensor:
    """[batch, transitions] ROOT takes its only dependent last."""
    buffer_has_word = state.front <= state.length
    two_words = state.depth >= 3
    root = ~buffer_has_word & (state.depth == 2)
    return torch.stack([two_words, two_words, root, buffer_has_word], dim=1)


def oracle(state: State, gold: Gold) -> Tensor:
    """[batch, transitions] An arc as soon as its dependent is complete, else Shift."""
    top, below = state.top(), state.top(below=1)
    head = gold.head_of(state, top)
    complete = gold.is_complete(state, top)
    left = (gold.head_of(state, below) == top) & (below > 0)
    right = (head == below) & complete & (below > 0)
    root = (head == 0) & complete & (below == 0)
    return torch.stack([left, right, root, torch.ones_like(left)], dim=1)


ARC_STANDARD = TransitionSystem("arc-standard", TRANSITIONS, finished, legal, oracle)
