"""Arc-eager (Nivre 2003): a word is attached to a head on its left as soon as possible, and reduced later.

The costs follow Goldberg & Nivre 2013: the gold arcs that a transition makes unreachable. Their system can
leave words without heads; this one cannot. So in some states every legal transition has a positive cost, and
the transitions of least cost are optimal.

- Left-Arc. Validity: the buffer is not empty, and S0 is a word without a head. Cost: the arc to S0 if its
  head is after B0, and the arcs from S0 into the buffer. Action: B0 becomes the head of S0, which leaves the
  stack.
- Right-Arc. Validity: S0 is a word, and the buffer has at least two words, or one if all words on the stack
  have heads. Cost: the arc to B0 if its head is below S0 or after B0, and the arcs from B0 to words on the
  stack. Action: S0 becomes the head of B0, which moves to the stack.
- Root-Arc. Validity: like Right-Arc, but S0 is ROOT. Cost: like Right-Arc. Action: ROOT becomes the head of
  B0, which moves to the stack.
- Reduce. Validity: the buffer is not empty, and S0 has a head, which is a word. Cost: the arcs from S0 into
  the buffer. Action: S0 leaves the stack.
- Shift. Validity: the buffer has at least two words. Cost: the arc to B0 if its head is on the stack, and
  the arcs from B0 to words on the stack. Action: B0 moves to the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parser.batching.stack_operations import POP, PUSH
from parser.transitions.system import Obstacle, Place, Transition, TransitionSystem, always

if TYPE_CHECKING:
    from torch import Tensor

    from parser.transitions.state import State, View


def _may_attach_front(view: View) -> Tensor:
    """Whether B0 may get a head on the stack: the last word only if all words on the stack have heads."""
    return (view.words_left >= 2) | ((view.words_left == 1) & (view.state.headless == 0))


def _left_cost(view: View) -> Tensor:
    """S0 loses its head if the head is in the buffer after B0, and its dependents in the buffer."""
    return view.s0_dependents_in_buffer + (view.gold_head_of_s0 > view.b0).long()


def _right_cost(view: View) -> Tensor:
    """B0 loses its head if the head is below S0 or after B0, and its dependents on the stack."""
    head = view.gold_head_of_b0
    lost = (view.b0_head_is_on_stack & (head != view.s0)) | (head > view.b0)
    return view.b0_dependents_on_stack + lost.long()


def _shift_cost(view: View) -> Tensor:
    """B0 loses its head if the head is on the stack, and its dependents on the stack."""
    return view.b0_dependents_on_stack + view.b0_head_is_on_stack.long()


_OF_PUSHED_DEPENDENT = Obstacle.B0_NOT_BELOW_S0 | Obstacle.B0_AWAITS | Obstacle.B0_LEAVES_HEADLESS
LEFT_ARC = Transition(
    "Left-Arc",
    POP,
    top=Place.S1,
    head=Place.B0,
    dependent=Place.S0,
    composes=Place.B0,
    legal=lambda view: view.has_buffer & view.s0_is_word & (view.s0_head < 0),
    oracle=lambda view: view.gold_head_of_s0 == view.b0,
    cost=_left_cost,
    obstacles=Obstacle.S0_NOT_BELOW_B0 | Obstacle.S0_AWAITS,
)
RIGHT_ARC = Transition(
    "Right-Arc",
    PUSH,
    top=Place.B0,
    pops_buffer=True,
    head=Place.S0,
    dependent=Place.B0,
    composes=Place.S0,  # the new S0 is the dependent; the head below it keeps its own vector
    legal=lambda view: _may_attach_front(view) & view.s0_is_word,
    oracle=lambda view: (view.gold_head_of_b0 == view.s0) & (view.s0 > 0),
    cost=_right_cost,
    obstacles=_OF_PUSHED_DEPENDENT | Obstacle.NO_ROOT_AFTER_B0,
)
ROOT_ARC = RIGHT_ARC._replace(
    name="Root-Arc",
    from_root=True,
    legal=lambda view: _may_attach_front(view) & ~view.s0_is_word,
    oracle=lambda view: (view.gold_head_of_b0 == 0) & (view.s0 == 0),
    obstacles=_OF_PUSHED_DEPENDENT | Obstacle.B0_NO_ROOT,
)
REDUCE = Transition(
    "Reduce",
    POP,
    top=Place.S1,
    # The dependent of ROOT is never reduced, so ROOT gets only one dependent.
    legal=lambda view: view.has_buffer & (view.s0_head > 0),
    oracle=lambda view: (view.s0_head > 0) & view.s0_is_complete,
    cost=lambda view: view.s0_dependents_in_buffer,
    obstacles=Obstacle.S0_AWAITS,
)
SHIFT = Transition(
    "Shift",
    PUSH,
    top=Place.B0,
    pops_buffer=True,
    legal=lambda view: view.words_left >= 2,
    oracle=always,
    cost=_shift_cost,
    obstacles=(
        Obstacle.B0_BELOW_STACK | Obstacle.B0_AWAITS | Obstacle.NO_ROOT_AFTER_B0 | Obstacle.B0_ABOVE_LAST
    ),
)


def finished(state: State) -> Tensor:
    """[batch] bool: the buffer is empty. By the rules above, all words have heads then."""
    return state.front > state.length


ARC_EAGER = TransitionSystem("arc-eager", (LEFT_ARC, RIGHT_ARC, ROOT_ARC, REDUCE, SHIFT), finished)
