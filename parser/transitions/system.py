"""Transition systems: transitions with their effects, preconditions, oracles and costs.

A system is one file beside this one, and a line in `parser/transitions/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.stack import HOLD, POP, REDUCE_AND_REPLACE, StackOperation
from parser.transitions.state import Gold, State, View

Rule = Callable[[View], Tensor]
"""A property [batch] of a transition in each state."""


def never(view: View) -> Tensor:
    return torch.zeros_like(view.b0, dtype=torch.bool)


def always(view: View) -> Tensor:
    return torch.ones_like(view.b0, dtype=torch.bool)


class Place(IntEnum):
    """A position in the state: the two top words of the stack and the first word of the buffer."""

    S0 = 0
    S1 = 1
    B0 = 2
    NOWHERE = 3


class Transition(NamedTuple):
    """A transition without its label."""

    name: str
    stack: StackOperation
    """The effect on the stack of words and on the StackLSTM."""
    top: Place
    """The word on top of the stack afterwards."""
    pops_buffer: bool = False
    """Whether B0 leaves the buffer."""
    head: Place = Place.NOWHERE
    dependent: Place = Place.NOWHERE
    from_root: bool = False
    """Whether ROOT is the head. Arcs from ROOT have their own set of labels."""
    legal: Rule = never
    """bool: whether the transition may be taken."""
    oracle: Rule = never
    """bool: whether it leads to the gold tree, if no transition before it in the system does."""
    cost: Rule | None = None
    """Number of gold arcs that the transition makes unreachable (Goldberg & Nivre 2013); None if unknown."""
    composes: Place = Place.NOWHERE
    """Whether the composed vector replaces that of S0 or of B0, in parsers with composition."""

    @property
    def makes_arc(self) -> bool:
        return self.dependent != Place.NOWHERE


NO_OP = Transition("No-Op", HOLD, top=Place.S0)
"""The transition of finished sentences while others of the batch continue."""


@dataclass(frozen=True)
class TransitionSystem:
    """A transition system. A sentence of n words takes at most 2n transitions.

    In each unfinished state at least one transition is legal.
    """

    name: str
    transitions: tuple[Transition, ...]
    """In the order in which the static oracle tries them."""
    finished: Callable[[State], Tensor]
    """[batch] bool: which states are final."""
    composes: bool = False
    """Whether arcs create composed vectors, which changes the stack operations."""

    @property
    def has_costs(self) -> bool:
        """Whether the system has a dynamic oracle, which exploration needs."""
        return all(transition.cost for transition in self.transitions)

    def legal(self, state: State) -> Tensor:
        """[batch, transitions] bool"""
        view = View(state)
        return torch.stack([transition.legal(view) for transition in self.transitions], dim=1)

    def oracle(self, state: State, gold: Gold) -> Tensor:
        """[batch, transitions] bool. The first True is the transition of the static oracle."""
        view = View(state, gold)
        return torch.stack([transition.oracle(view) for transition in self.transitions], dim=1)

    def costs(self, state: State, gold: Gold) -> Tensor:
        """[batch, transitions] Costs, valid for legal transitions. The system must have costs."""
        assert self.has_costs
        view = View(state, gold)
        return torch.stack(
            [transition.cost(view) for transition in self.transitions if transition.cost], dim=1
        )

    def composing(self) -> TransitionSystem:
        """The same system for parsers with composition (Dyer et al. 2015, section 3.2)."""
        return replace(self, transitions=tuple(map(_composing, self.transitions)), composes=True)


def _composing(transition: Transition) -> Transition:
    """With composition, a pop that makes an arc becomes a reduction: two rows become one new row."""
    pops = transition.composes == Place.S0 and transition.stack == POP
    return transition._replace(stack=REDUCE_AND_REPLACE) if pops else transition
