"""Arc-hybrid (Kuhlmann, Gómez-Rodríguez & Satta 2011): the head of a left arc is B0.

The costs follow Goldberg & Nivre 2013: the gold arcs that a transition makes unreachable.

- Left-Arc. Validity: the buffer is not empty, and S0 is a word. Cost: the arc to S0 if its head is S1 or
  after B0, and the arcs from S0 into the buffer. Action: B0 becomes the head of S0, which leaves the stack.
- Right-Arc. Validity: S0 and S1 are words. Cost: the arc to S0 if its head is in the buffer, and the arcs
  from S0 into the buffer. Action: S1 becomes the head of S0, which leaves the stack.
- Root-Arc. Validity: the buffer is empty, and S0 is the only word on the stack. Cost: like Right-Arc.
  Action: ROOT becomes the head of S0, which leaves the stack.
- Shift. Validity: the buffer is not empty. Cost: the arc to B0 if its head is on the stack below S0, and the
  arcs from B0 to words on the stack. Action: B0 moves to the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parser.batching.stack_operations import POP, PUSH
from parser.transitions.system import Obstacle, Place, Transition, TransitionSystem, always

if TYPE_CHECKING:
    from torch import Tensor

    from parser.transitions.state import State, View


def _left_cost(view: View) -> Tensor:
    """S0 loses its head if the head is S1 or after B0, and its dependents in the buffer."""
    head = view.gold_head_of_s0
    return view.s0_dependents_in_buffer + ((head == view.s1) | (head > view.b0)).long()


def _right_cost(view: View) -> Tensor:
    """S0 loses its head if the head is in the buffer, and its dependents in the buffer."""
    return view.s0_dependents_in_buffer + (view.gold_head_of_s0 >= view.b0).long()


def _shift_cost(view: View) -> Tensor:
    """B0 loses its head if the head is below S0, and its dependents on the stack."""
    head_is_below = view.b0_head_is_on_stack & (view.gold_head_of_b0 != view.s0)
    return view.b0_dependents_on_stack + head_is_below.long()


LEFT_ARC = Transition(
    "Left-Arc",
    POP,
    top=Place.S1,
    head=Place.B0,
    dependent=Place.S0,
    composes=Place.B0,
    legal=lambda view: view.has_buffer & view.s0_is_word,
    oracle=lambda view: view.gold_head_of_s0 == view.b0,
    cost=_left_cost,
    obstacles=Obstacle.S0_NOT_BELOW_B0 | Obstacle.S0_AWAITS | Obstacle.NO_ROOT_IN_BUFFER,
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
    cost=_right_cost,
    obstacles=Obstacle.S0_NOT_BELOW_S1 | Obstacle.S0_AWAITS,
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
    cost=_right_cost,
    obstacles=Obstacle(0),
)
SHIFT = Transition(
    "Shift",
    PUSH,
    top=Place.B0,
    pops_buffer=True,
    legal=lambda view: view.has_buffer,
    oracle=always,
    cost=_shift_cost,
    obstacles=Obstacle.B0_BELOW_DEEPER | Obstacle.B0_AWAITS | Obstacle.NO_ROOT_AT_BOTTOM,
)


def finished(state: State) -> Tensor:
    """[batch] bool: the buffer is empty, and only ROOT is on the stack."""
    return (state.front > state.length) & (state.depth == 1)


ARC_HYBRID = TransitionSystem("arc-hybrid", (LEFT_ARC, RIGHT_ARC, ROOT_ARC, SHIFT), finished)
