"""Arc-standard (Nivre 2004): both arcs join the two words on top of the stack."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import REDUCE_AND_REPLACE
from parser.transitions.reducing import RIGHT_ARC, ROOT_ARC, SHIFT, finished
from parser.transitions.state import State
from parser.transitions.system import Gold, Place, Transition, TransitionSystem

LEFT_ARC = Transition(
    "Left-Arc", REDUCE_AND_REPLACE, top=Place.S0, head=Place.S0, dependent=Place.S1, composes=Place.S0
)
TRANSITIONS = (LEFT_ARC, RIGHT_ARC, ROOT_ARC, SHIFT)


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
