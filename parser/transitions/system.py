"""Transition systems: transitions with their effects, preconditions, oracles and costs.

Each system is one file next to this one, and a line in `parser/transitions/__init__.py`. The rules use
operators alone, so they work for the states of a batch in PyTorch and for tables in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag, auto
from typing import Any, NamedTuple

from parser.batching.stack_operations import HOLD, POP, REDUCE_AND_REPLACE, StackOperation


class Obstacle(IntFlag):
    """Conditions of a state that block transitions if some arcs are given; heads and dependents are these."""

    S0_NOT_BELOW_B0 = auto()
    """S0 has another head than B0."""
    S0_NOT_BELOW_S1 = auto()
    """S0 has another head than S1."""
    S0_AWAITS = auto()
    """A dependent of S0 is in the buffer."""
    B0_NOT_BELOW_S0 = auto()
    """B0 has another head than S0."""
    B0_BELOW_STACK = auto()
    """The head of B0 is on the stack, or ROOT."""
    B0_BELOW_DEEPER = auto()
    """The head of B0 is on the stack below S0."""
    B0_AWAITS = auto()
    """A dependent of B0 is on the stack and has no head yet."""
    NO_ROOT_IN_BUFFER = auto()
    """S0 is alone on ROOT, and no word of the buffer may be the root."""
    NO_ROOT_AFTER_B0 = auto()
    """There is no root yet, and no word after B0 may be the root."""
    NO_ROOT_AT_BOTTOM = auto()
    """Neither a word after B0 nor the lowest word on the stack (B0 if there is none) may be the root."""
    B0_NO_ROOT = auto()
    """B0 may not be the root."""
    B0_ABOVE_LAST = auto()
    """The last word is B0 or below B0 in the tree: words without a head by then cannot get one later."""
    B0_LEAVES_HEADLESS = auto()
    """Like `B0_ABOVE_LAST`, and some words on the stack have no head."""


OF_WHOLE_TREE = (
    Obstacle.NO_ROOT_IN_BUFFER,
    Obstacle.NO_ROOT_AFTER_B0,
    Obstacle.NO_ROOT_AT_BOTTOM,
    Obstacle.B0_NO_ROOT,
    Obstacle.B0_ABOVE_LAST,
    Obstacle.B0_LEAVES_HEADLESS,
)
"""Obstacles that costs do not cover: each arc could still be made, but not a tree with a single root."""


Rule = Callable[[Any], Any]
"""A property [batch] of a transition in each state. The argument is a `View`, or an object like it."""


def never(view: Any) -> Any:
    return view.words_left < 0


def always(view: Any) -> Any:
    return view.words_left >= 0


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
    """bool: whether it leads to the gold tree, if no earlier transition of the system does."""
    cost: Rule | None = None
    """Number of gold arcs that the transition makes unreachable (Goldberg & Nivre 2013); None if unknown."""
    obstacles: Obstacle | None = None
    """With any of them, the transition makes given arcs, or any root, unreachable; None if unknown."""
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
    finished: Callable[[Any], Any]
    """[batch] bool: which states are final."""
    composes: bool = False
    """Whether arcs create composed vectors, which changes the stack operations."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the system by its name, since functions without names cannot be pickled."""
        from parser.transitions import transition_system

        return transition_system, (self.name, self.composes)

    @property
    def has_costs(self) -> bool:
        """Whether the system has a dynamic oracle, which exploration needs."""
        return all(transition.cost for transition in self.transitions)

    @property
    def keeps_given_arcs(self) -> bool:
        """Whether it is known which transitions keep given arcs possible."""
        return all(transition.obstacles is not None for transition in self.transitions)

    def legal(self, view: Any) -> list[Any]:
        """For each transition, whether it may be taken, [batch] bool."""
        return [transition.legal(view) for transition in self.transitions]

    def oracle(self, view: Any) -> list[Any]:
        """[batch] bool for each transition. The first one that is true is that of the static oracle."""
        return [transition.oracle(view) for transition in self.transitions]

    def costs(self, view: Any) -> list[Any]:
        """[batch] for each transition its costs, valid if it is legal. The system must have costs."""
        assert self.has_costs
        return [transition.cost(view) for transition in self.transitions if transition.cost]

    def keeps_root(self, transition: Transition, place: Place, is_alone: bool) -> bool:
        """Whether ROOT can still become the head of a word after the transition, if it could before.

        place: of the word before the transition; NOWHERE for all other words of the sentence. is_alone:
        whether ROOT is alone on the stack before the transition.
        """
        if place == Place.NOWHERE:
            return not transition.from_root
        if place == transition.dependent:
            return transition.from_root
        if place == Place.B0 and transition.pops_buffer:
            # B0 moves to the stack, where it gets ROOT as its head only if all words below it can leave.
            finds_root_on_stack = any(
                each.from_root and each.dependent != Place.B0 for each in self.transitions
            )
            frees_from_below = any(each.stack.move < 0 and each.top == Place.S0 for each in self.transitions)
            return finds_root_on_stack and (is_alone or frees_from_below)
        return True

    def composing(self) -> TransitionSystem:
        """The same system for parsers with composition (Dyer et al. 2015, section 3.2)."""
        # A pop that makes an arc becomes a reduction: two rows become one new row.
        transitions = (
            each._replace(stack=REDUCE_AND_REPLACE)
            if each.composes == Place.S0 and each.stack == POP
            else each
            for each in self.transitions
        )
        return replace(self, transitions=tuple(transitions), composes=True)
