"""Transition systems: what a parser may do, each move with its validity, its oracle and its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.stack import HOLD, POP, REDUCE_AND_REPLACE, StackOperation
from parser.transitions.gold import Gold
from parser.transitions.state import State
from parser.transitions.view import View

Rule = Callable[[View], Tensor]
"""[batch] What holds of a move in each state."""


def never(view: View) -> Tensor:
    return torch.zeros_like(view.b0, dtype=torch.bool)


def always(view: View) -> Tensor:
    return torch.ones_like(view.b0, dtype=torch.bool)


class Place(IntEnum):
    """Where a transition finds a word."""

    S0 = 0
    S1 = 1
    B0 = 2
    NOWHERE = 3


class Transition(NamedTuple):
    """A transition without its label, by its effects."""

    name: str
    stack: StackOperation
    """What the stack of words does, and the StackLSTM with it."""
    top: Place
    """The word that lies on top of the stack afterwards."""
    pops_buffer: bool = False
    """Whether B0 leaves the buffer."""
    head: Place = Place.NOWHERE
    dependent: Place = Place.NOWHERE
    from_root: bool = False
    """Whether ROOT is the head: such arcs have labels of their own."""
    legal: Rule = never
    """bool. Validity: whether it may be taken."""
    oracle: Rule = never
    """bool. Whether it leads to the gold tree, unless a move before it in its system does."""
    cost: Rule | None = None
    """Gold arcs that can be reached before the move and not after it (Goldberg & Nivre 2013); None where
    nobody has worked them out."""
    composes: Place = Place.NOWHERE
    """Which of S0 and B0 stands, afterwards, for its head and dependent together, if the parser composes."""

    @property
    def makes_arc(self) -> bool:
        return self.dependent != Place.NOWHERE


NO_OP = Transition("Wait", HOLD, top=Place.S0)
"""What a finished sentence does while others of its batch go on."""


@dataclass(frozen=True)
class TransitionSystem:
    """One way of building trees from left to right; n words take at most 2n transitions.

    In each state that is not finished some move is legal.
    """

    name: str
    transitions: tuple[Transition, ...]
    """In the order in which the oracle asks them."""
    finished: Callable[[State], Tensor]
    """[batch] bool"""
    composes: bool = False
    """Whether arcs make composed vectors, which change what the stack does."""

    @property
    def has_costs(self) -> bool:
        """Whether a dynamic oracle can be asked, and so training explore."""
        return all(transition.cost for transition in self.transitions)

    def legal(self, state: State) -> Tensor:
        """[batch, transitions] bool"""
        view = View(state)
        return torch.stack([transition.legal(view) for transition in self.transitions], dim=1)

    def oracle(self, state: State, gold: Gold) -> Tensor:
        """[batch, transitions] bool; the first True is the transition towards the gold tree."""
        view = View(state, gold)
        return torch.stack([transition.oracle(view) for transition in self.transitions], dim=1)

    def costs(self, state: State, gold: Gold) -> Tensor:
        """[batch, transitions] Of legal transitions, if the system `has_costs`."""
        assert self.has_costs
        view = View(state, gold)
        return torch.stack(
            [transition.cost(view) for transition in self.transitions if transition.cost], dim=1
        )

    def composing(self) -> TransitionSystem:
        """The same, for a StackLSTM whose top is replaced by a composed vector (Dyer et al. 2015, 3.2)."""
        return replace(self, transitions=tuple(map(_composing, self.transitions)), composes=True)


def _composing(transition: Transition) -> Transition:
    """A dependent that is popped leaves its head changed: that is not a pop, but two words become one."""
    pops = transition.composes == Place.S0 and transition.stack == POP
    return transition._replace(stack=REDUCE_AND_REPLACE) if pops else transition
