"""Arc-standard (Nivre 2004): arcs connect the two top words of the stack. Without costs."""

from __future__ import annotations

from parser.batching.stack import REDUCE_AND_REPLACE
from parser.transitions.shift_reduce import RIGHT_ARC, ROOT_ARC, SHIFT, finished
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

ARC_STANDARD = TransitionSystem("arc-standard", (LEFT_ARC, RIGHT_ARC, ROOT_ARC, SHIFT), finished)
