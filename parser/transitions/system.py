"""Transition systems: what a parser may do, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.stack import HOLD, POP, REDUCE_AND_REPLACE, Operation
from parser.transitions.state import State
from parser.treebank.sentence import NO_HEAD


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
    composes: Place = Place.NOWHERE
    """Which of S0 and B0 stands, afterwards, for its head and dependent together, if the parser composes."""

    @property
    def makes_arc(self) -> bool:
        return self.dependent != Place.NOWHERE


WAIT = Transition("Wait", HOLD, top=Place.S0)
"""What a finished sentence does while others of its batch go on."""


@dataclass(frozen=True)
class Gold:
    """The trees that an oracle follows, in the flat layout of `State` unless said: tensors [words + 1].

    heads: NO_HEAD in the last place. last_dependent: the rightmost dependent of each word, 0 for none.
    """

    heads: Tensor
    last_dependent: Tensor
    by_sentence: Tensor
    """[batch, longest + 1] Heads by sentence and word; NO_HEAD for ROOT and behind the last word."""

    def head_of(self, state: State, word: Tensor) -> Tensor:
        """[batch] Gold heads of the words [batch], NO_HEAD for ROOT."""
        return self.heads[state.place(word)]

    def is_complete(self, state: State, word: Tensor) -> Tensor:
        """[batch] Whether no gold dependent of the words [batch] is left in the buffer."""
        return self.last_dependent[state.place(word)] < state.front

    def dependents_in_buffer(self, state: State, word: Tensor) -> Tensor:
        """[batch] How many gold dependents of the words [batch] are left in the buffers, front included."""
        place = torch.arange(self.by_sentence.shape[1], device=word.device)
        return ((self.by_sentence == word[:, None]) & (place >= state.front[:, None])).sum(1)

    def dependents_on_stack(self, state: State, word: Tensor) -> Tensor:
        """[batch] How many gold dependents of the words [batch] are on the stacks and have no head yet."""
        stack = state.stack
        exists = stack > 0
        place = torch.where(exists, state.base[:, None] + stack, len(state.heads) - 1)
        waits = state.on_stack() & (state.heads[place] == NO_HEAD)
        return ((self.by_sentence.gather(1, stack) == word[:, None]) & waits).sum(1)


@dataclass(frozen=True)
class TransitionSystem:
    """One way of building trees from left to right; n words take at most 2n transitions.

    finished: state -> [batch] bool.
    legal: state -> [batch, transitions] bool, some True unless a sentence is finished.
    oracle: (state, gold) -> [batch, transitions] bool; the first True is the transition towards the gold
    tree, asked only where a sentence is not finished.
    costs: (state, gold) -> [batch, transitions] the gold arcs that can be reached before a legal transition
    and not after it (Goldberg & Nivre 2013); None where nobody has worked them out.
    """

    name: str
    transitions: tuple[Transition, ...]
    finished: Callable[[State], Tensor]
    legal: Callable[[State], Tensor]
    oracle: Callable[[State, Gold], Tensor]
    costs: Callable[[State, Gold], Tensor] | None = None
    composes: bool = False
    """Whether arcs make composed vectors, which change what the stack does."""

    def composing(self) -> TransitionSystem:
        """The same, for a StackLSTM whose top is replaced by a composed vector (Dyer et al. 2015, 3.2)."""
        return replace(self, transitions=tuple(map(_composing, self.transitions)), composes=True)


def _composing(transition: Transition) -> Transition:
    """A dependent that is popped leaves its head changed: that is not a pop, but two words become one."""
    pops = transition.composes == Place.S0 and transition.stack == POP
    return transition._replace(stack=REDUCE_AND_REPLACE) if pops else transition
