"""Arc-eager (Nivre 2003): a word is attached to the left as soon as it is met, and reduced later.

The costs are those of Goldberg & Nivre 2013, for a system that may leave words without heads. This one may
not, so in some states no legal transition has cost zero, and the cheapest are the best.
"""

from __future__ import annotations

from torch import Tensor

from parser.batching.stack import POP, PUSH
from parser.transitions.state import State
from parser.transitions.system import Place, Transition, TransitionSystem, always
from parser.transitions.view import View


def _may_attach_front(view: View) -> Tensor:
    """The last word is attached to the left only when no other word waits for a head."""
    return (view.words_left >= 2) | ((view.words_left == 1) & (view.state.headless == 0))


def _left_cost(view: View) -> Tensor:
    """S0 loses a head behind B0, and its dependents in the buffer."""
    return view.s0_dependents_ahead + (view.gold_head_of_s0 > view.b0).long()


def _right_cost(view: View) -> Tensor:
    """B0 loses a head on the stack below S0 or behind itself, and its dependents on the stack."""
    head = view.gold_head_of_b0
    lost = (view.b0_head_is_on_stack & (head != view.s0)) | (head > view.b0)
    return view.b0_dependents_behind + lost.long()


def _shift_cost(view: View) -> Tensor:
    """B0 loses a head, and its dependents, on the stack."""
    return view.b0_dependents_behind + view.b0_head_is_on_stack.long()


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
)
RIGHT_ARC = Transition(
    "Right-Arc",
    PUSH,
    top=Place.B0,
    pops_buffer=True,
    head=Place.S0,
    dependent=Place.B0,
    composes=Place.S0,  # the dependent's new place; the head below keeps its own vector
    legal=lambda view: _may_attach_front(view) & view.s0_is_word,
    oracle=lambda view: (view.gold_head_of_b0 == view.s0) & (view.s0 > 0),
    cost=_right_cost,
)
ROOT_ARC = RIGHT_ARC._replace(
    name="Root-Arc",
    from_root=True,
    legal=lambda view: _may_attach_front(view) & ~view.s0_is_word,
    oracle=lambda view: (view.gold_head_of_b0 == 0) & (view.s0 == 0),
)
REDUCE = Transition(
    "Reduce",
    POP,
    top=Place.S1,
    # The dependent of ROOT is never reduced, so that ROOT takes no second one.
    legal=lambda view: view.has_buffer & (view.s0_head > 0),
    oracle=lambda view: (view.s0_head > 0) & view.s0_is_complete,
    cost=lambda view: view.s0_dependents_ahead,
)
SHIFT = Transition(
    "Shift",
    PUSH,
    top=Place.B0,
    pops_buffer=True,
    legal=lambda view: view.words_left >= 2,
    oracle=always,
    cost=_shift_cost,
)


def finished(state: State) -> Tensor:
    """[batch] When the buffer is empty: by the rules every word has its head then."""
    return state.front > state.length


ARC_EAGER = TransitionSystem("arc-eager", (LEFT_ARC, RIGHT_ARC, ROOT_ARC, REDUCE, SHIFT), finished)
