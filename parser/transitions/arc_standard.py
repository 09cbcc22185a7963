"""Arc-standard (Nivre 2004): arcs connect the two top words of the stack. No costs are defined.

Right-Arc, Root-Arc and Shift are the same as in arc-hybrid: a word is reduced as soon as it gets its head.

- Left-Arc. Validity: S0 and S1 are words. Action: S0 becomes the head of S1, which leaves the stack.
- Right-Arc. Validity: S0 and S1 are words. Action: S1 becomes the head of S0, which leaves the stack.
- Root-Arc. Validity: the buffer is empty, and S0 is the only word on the stack. Action: ROOT becomes the head
  of S0, which leaves the stack.
- Shift. Validity: the buffer is not empty. Action: B0 moves to the stack.
"""

from __future__ import annotations

from parser.batching.stack_operations import REDUCE_AND_REPLACE
from parser.transitions import arc_hybrid
from parser.transitions.system import Place, Transition, TransitionSystem

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
RIGHT_ARC, ROOT_ARC, SHIFT = (
    transition._replace(cost=None, obstacles=None)
    for transition in (arc_hybrid.RIGHT_ARC, arc_hybrid.ROOT_ARC, arc_hybrid.SHIFT)
)

ARC_STANDARD = TransitionSystem("arc-standard", (LEFT_ARC, RIGHT_ARC, ROOT_ARC, SHIFT), arc_hybrid.finished)
