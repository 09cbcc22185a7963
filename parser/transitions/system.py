"""Transition systems: what a parser may do, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from torch import Tensor

from parser.batching.stack import HOLD, Operation
from parser.transitions.state import State


class Place(IntEnum):
    """Where a transition finds a word."""

    S0 = 0
    S1 = 1
    B0 = 2
    NOWHERE = 3


class Transition(NamedTuple):
    """A transition without its label, by its effects."""

    name: str
    stack: Operation
    """What the stack of words does, and the StackLSTM with it."""
    top: Place
    """The word that lies on top of the stack afterwards."""
    takes_front: bool = False
    """Whether B0 leaves the buffer."""
    head: Place = Place.NOWHERE
    dependent: Place = Place.NOWHERE
    from_root: bool = False
    """Whether ROOT is the head: such arcs have labels of their own."""

    @property
    def makes_arc(self) -> bool:
        return self.dependent != Place.NOWHERE


WAIT = Transition("Wait", HOLD, top=Place.S0)
"""What a finished sentence does while others of its batch go on."""


@dataclass(frozen=True)
class Gold:
    """The trees that a static oracle follows, in the flat layout of `State`: tensors [words + 1].

    heads: NO_HEAD in the last place. last_dependent: the rightmost dependent of each word, 0 for none.
    """

    heads: Tensor
    last_dependent: Tensor

    def head_of(self, state: State, word: Tensor) -> Tensor:
        """[batch] Gold heads of the words [batch], NO_HEAD for ROOT."""
        return self.heads[state.place(word)]

    def is_complete(self, state: State, word: Tensor) -> Tensor:
        """[batch] Whether no gold dependent of the words [batch] is left in the buffer."""
        return self.last_dependent[state.place(word)] < state.front


@dataclass(frozen=True)
class TransitionSystem:
    """One way of building trees from left to right; n words take at most 2n transitions.

    finished: state -> [batch] bool.
    legal: state -> [batch, transitions] bool, some True unless a sentence is finished.
    oracle: (state, gold) -> [batch, transitions] bool; the first True is the transition towards the gold
    tree, asked only where a sentence is not finished.
    """

    name: str
    transitions: tuple[Transition, ...]
    finished: Callable[[State], Tensor]
    legal: Callable[[State], Tensor]
    oracle: Callable[[State, Gold], Tensor]
