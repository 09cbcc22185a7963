"""Transitions that arc-hybrid and arc-standard share: a word is reduced as soon as it gets its head."""

from __future__ import annotations

from torch import Tensor

from parser.batching.stack import POP, PUSH
from parser.transitions.state import State
from parser.transitions.system import Place, Transition, always

RIGHT_ARC = Transition(
    "Right-Arc",
    POP,
    top=Place.S1,
    head=Place.S1,
    dependent=Place.S0,
    composes=Place.S0,
    legal=lambda view: view.s1_is_word,
    oracle=lambda view: (view.gold_head_of_s0 == view.s1) & view.s0_is_complete & (view.s1 > 0),
)
# This is the last transition, so it needs no composition: nothing reads the vector afterwards.
ROOT_ARC = Transition(
    "Root-Arc",
    POP,
    top=Place.S1,
    head=Place.S1,
    dependent=Place.S0,
    from_root=True,
    legal=lambda view: ~view.has_buffer & (view.state.depth == 2),
    oracle=lambda view: (view.gold_head_of_s0 == 0) & view.s0_is_complete & (view.s1 == 0),
)
SHIFT = Transition(
    "Shift", PUSH, top=Place.B0, pops_buffer=True, legal=lambda view: view.has_buffer, oracle=always
)


def finished(state: State) -> Tensor:
    """[batch] bool: the buffer is empty, and only ROOT is on the stack."""
    return (state.front > state.length) & (state.depth == 1)
