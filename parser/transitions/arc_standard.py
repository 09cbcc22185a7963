"""Arc-standard (Nivre 2004): arcs connect the two top words of the stack. Without costs.

Right-Arc, Root-Arc and Shift are also those of arc-hybrid: a word is reduced as soon as it gets its head.

- Left-Arc. Validity: S0 and S1 are words. Action: S0 becomes the head of S1, which leaves the stack.
- Right-Arc. Validity: S0 and S1 are words. Action: S1 becomes the head of S0, which leaves the stack.
- Root-Arc. Validity: the buffer is empty, and S0 is the only word on the stack. Action: ROOT becomes the head
  of S0, which leaves the stack.
- Shift. Validity: the buffer is not empty. Action: B0 moves to the stack.
"""

from __future__ import annotations

from torch import Tensor

from parser.batching.stack import POP, PUSH, REDUCE_AND_REPLACE
from parser.transitions.state import State
from parser.transitions.system import Place, Transition, TransitionSystem, always

LEFT_ARC = Transition(
    "Left-Arc",
    REDUCE_AND_REPLACE,
    top=Place.S0,
    head=Place.S0,
    dependent=Place.S1,
    composes=Place.S0,
    legal=lambda view: view.s1_is_word,
    oracle=lambda view: (view.gold_head_of_s1 == view.s0) & (view.s1 > 0),
)
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


ARC_STANDARD = TransitionSystem("arc-standard", (LEFT_ARC, RIGHT_ARC, ROOT_ARC, SHIFT), finished)
