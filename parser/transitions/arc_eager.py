"""Arc-eager (Nivre 2003): a word is attached to the left as soon as it is met, and reduced later."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.stack import POP, PUSH
from parser.transitions.state import State
from parser.transitions.system import Gold, Place, Transition, TransitionSystem

RIGHT_ARC = Transition(
    "Right-Arc",
    PUSH,
    top=Place.B0,
    takes_front=True,
    head=Place.S0,
    dependent=Place.B0,
    composes=Place.S0,  # the dependent's new place; the head below keeps its own vector
)
TRANSITIONS = (
    Transition("Left-Arc", POP, top=Place.S1, head=Place.B0, dependent=Place.S0, composes=Place.B0),
    RIGHT_ARC,
    RIGHT_ARC._replace(name="Root-Arc", from_root=True),
    Transition("Reduce", POP, top=Place.S1),
    Transition("Shift", PUSH, top=Place.B0, takes_front=True),
)


def finished(state: State) -> Tensor:
    """[batch] When the buffer is empty: `legal` sees to it that every word has its head then."""
    return state.front > state.length


def legal(state: State) -> Tensor:
    """[batch, transitions] The last word is attached to the left only when no other word waits for a head.

    The dependent of ROOT is never reduced, so that ROOT takes no second one.
    """
    top_head = state.head_of(state.top())
    words_left = state.length + 1 - state.front
    top_is_word = state.depth >= 2
    may_attach_front = (words_left >= 2) | ((words_left == 1) & (state.headless == 0))
    left = (words_left >= 1) & top_is_word & (top_head < 0)
    reduce = (words_left >= 1) & (top_head > 0)
    return torch.stack(
        [left, may_attach_front & top_is_word, may_attach_front & ~top_is_word, reduce, words_left >= 2],
        dim=1,
    )


def oracle(state: State, gold: Gold) -> Tensor:
    """[batch, transitions] Arcs first, then Reduce where the top is complete, else Shift."""
    top = state.top()
    front_head = gold.head_of(state, state.front)
    left = gold.head_of(state, top) == state.front
    right = (front_head == top) & (top > 0)
    root = (front_head == 0) & (top == 0)
    reduce = (state.head_of(top) > 0) & gold.is_complete(state, top)
    return torch.stack([left, right, root, reduce, torch.ones_like(left)], dim=1)


def costs(state: State, gold: Gold) -> Tensor:
    """[batch, transitions] Goldberg & Nivre 2013; of a system that may leave words without heads.

    This one may not, so in some states no legal transition has cost zero, and the cheapest are the best.
    """
    top, front = state.top(), state.front
    head_of_top, head_of_front = gold.head_of(state, top), gold.head_of(state, front)
    reduce = gold.dependents_in_buffer(state, top)
    left = reduce + (head_of_top > front).long()
    headless = gold.dependents_on_stack(state, front)
    head_on_stack = state.has_on_stack(head_of_front)
    right = headless + ((head_on_stack & (head_of_front != top)) | (head_of_front > front)).long()
    shift = headless + head_on_stack.long()
    return torch.stack([left, right, right, reduce, shift], dim=1)


ARC_EAGER = TransitionSystem("arc-eager", TRANSITIONS, finished, legal, oracle, costs)
