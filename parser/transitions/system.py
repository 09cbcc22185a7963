"""Transition systems: states of parsers, transitions with their effects, preconditions, oracles and costs.

Each system is one file next to this one, and a line in `parser/transitions/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag, auto
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.ragged import Ragged
from parser.batching.stack import HOLD, POP, REDUCE_AND_REPLACE, StackOperation
from parser.treebank.sentence import NO_HEAD


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


@dataclass
class State:
    """The states of a batch of parsers, changed in place by `Inventory.apply`.

    In each sentence, ROOT is 0 and words have numbers from 1. Flat tensors [words + 1] have an element for
    each word, sentence by sentence: the element of a word has the index `base` + word, and the last element
    stands for no word.
    """

    stack: Tensor
    """[batch, capacity] Words on the stack, from ROOT at the bottom."""
    depth: Tensor
    """[batch] Number of words on the stack, including ROOT."""
    front: Tensor
    """[batch] B0, the first word of the buffer; length + 1 if the buffer is empty."""
    length: Tensor
    """[batch] Number of words in the sentence."""
    base: Tensor
    """[batch] Index in flat tensors of the first word of the sentence, minus 1."""
    headless: Tensor
    """[batch] Number of words on the stack, without ROOT, that have no head."""
    heads: Tensor
    """[words + 1] Head of each word; NO_HEAD if it has none yet."""
    labels: Tensor
    """[words + 1] Label of the arc to each word."""

    @classmethod
    def initial(cls, lengths: Tensor, device: torch.device | None = None) -> State:
        """Initial states: ROOT on the stacks, all words in the buffers.

        lengths: [sentences], on the host, to avoid a synchronisation.
        """
        total, longest = int(lengths.sum()), int(lengths.max())
        lengths = to_device(lengths, device or lengths.device)
        return cls(
            stack=lengths.new_zeros(len(lengths), longest + 1),
            depth=torch.ones_like(lengths),
            front=torch.ones_like(lengths),
            length=lengths.clone(),
            base=lengths.cumsum(0) - lengths - 1,
            headless=torch.zeros_like(lengths),
            heads=lengths.new_full((total + 1,), NO_HEAD),
            labels=lengths.new_zeros(total + 1),
        )

    def top(self, below: int = 0) -> Tensor:
        """[batch] S0, or S1 for `below` = 1; ROOT if the stack has fewer words."""
        index = (self.depth - 1 - below).clamp(min=0)
        return self.stack.gather(1, index[:, None]).squeeze(1)

    def on_stack(self) -> Tensor:
        """[batch, capacity] bool: the used part of `stack`."""
        return torch.arange(self.stack.shape[1], device=self.depth.device) < self.depth[:, None]

    def words(self) -> Tensor:
        """[places, batch] The words at S0, S1, B0 and NOWHERE (-1), in the order of `system.Place`."""
        nowhere = torch.full_like(self.front, -1)
        return torch.stack([self.top(), self.top(below=1), self.front, nowhere])

    def flat_index(self, word: Tensor) -> Tensor:
        """[..., batch] Indices in flat tensors of the words [..., batch]; the last index for no word."""
        exists = (word > 0) & (word <= self.length)
        return torch.where(exists, self.base + word, len(self.heads) - 1)

    def head_of(self, word: Tensor) -> Tensor:
        """[batch] Heads of the words [batch]; NO_HEAD for words without heads."""
        return self.heads[self.flat_index(word)]


def front_positions(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """[words + sentences] The sentence of each possible buffer front, and its position there, from 0.

    A front is a word or, last in each sentence, the end of the buffer. lengths: [sentences], on the host.
    """
    fronts = Ragged(torch.empty(int(lengths.sum()) + len(lengths)), lengths + 1)
    return fronts.row_of_element(), fronts.position_in_row()


@dataclass(frozen=True)
class Gold:
    """The gold trees of a batch. Tensors [words + 1] have the flat layout of `State`."""

    heads: Tensor
    """[words + 1] Head of each word; NO_HEAD at the end."""
    last_dependent: Tensor
    """[words + 1] Rightmost dependent of each word; 0 for none."""
    by_sentence: Tensor
    """[batch, longest + 1] Heads by sentence and word; NO_HEAD for ROOT and after the last word."""

    def head_of(self, state: State, word: Tensor) -> Tensor:
        """[batch] Gold heads of the words [batch]; NO_HEAD for ROOT."""
        return self.heads[state.flat_index(word)]


class View:
    """Properties of a batch of states. Tensors are [batch] and bool unless stated otherwise.

    S0 and S1 are the two top words of the stack, or ROOT if there are fewer. B0 is the first word of the
    buffer.
    """

    def __init__(self, state: State, gold: Gold | None = None):
        """gold: the gold trees, for properties that depend on them."""
        self.state, self._gold = state, gold

    @cached_property
    def s0(self) -> Tensor:
        """[batch] long"""
        return self.state.top()

    @cached_property
    def s1(self) -> Tensor:
        """[batch] long"""
        return self.state.top(below=1)

    @property
    def b0(self) -> Tensor:
        """[batch] long; the last word + 1 if the buffer is empty."""
        return self.state.front

    @cached_property
    def words_left(self) -> Tensor:
        """[batch] long, number of words in the buffer."""
        return self.state.length + 1 - self.state.front

    @cached_property
    def has_buffer(self) -> Tensor:
        return self.words_left > 0

    @cached_property
    def s0_is_word(self) -> Tensor:
        return self.state.depth >= 2

    @cached_property
    def s1_is_word(self) -> Tensor:
        return self.state.depth >= 3

    @cached_property
    def s0_head(self) -> Tensor:
        """[batch] long, the present head; NO_HEAD for none."""
        return self.state.head_of(self.s0)

    @property
    def gold(self) -> Gold:
        assert self._gold is not None
        return self._gold

    @cached_property
    def gold_head_of_s0(self) -> Tensor:
        """[batch] long; NO_HEAD for ROOT."""
        return self.gold.head_of(self.state, self.s0)

    @cached_property
    def gold_head_of_s1(self) -> Tensor:
        """[batch] long; NO_HEAD for ROOT."""
        return self.gold.head_of(self.state, self.s1)

    @cached_property
    def gold_head_of_b0(self) -> Tensor:
        """[batch] long; NO_HEAD if the buffer is empty."""
        return self.gold.head_of(self.state, self.b0)

    @cached_property
    def s0_is_complete(self) -> Tensor:
        """Whether no gold dependent of S0 is in the buffer."""
        return self.gold.last_dependent[self.state.flat_index(self.s0)] < self.state.front

    @cached_property
    def s0_dependents_in_buffer(self) -> Tensor:
        """[batch] long, number of gold dependents of S0 in the buffer, including B0."""
        by_sentence = self.gold.by_sentence
        words = torch.arange(by_sentence.shape[1], device=self.s0.device)
        is_left = words >= self.state.front[:, None]  # [batch, longest + 1]
        return ((by_sentence == self.s0[:, None]) & is_left).sum(1)

    @cached_property
    def b0_dependents_on_stack(self) -> Tensor:
        """[batch] long, number of gold dependents of B0 that are on the stack without a head."""
        state, stack = self.state, self.state.stack
        index = torch.where(stack > 0, state.base[:, None] + stack, len(state.heads) - 1)
        is_headless = state.on_stack() & (state.heads[index] == NO_HEAD)  # [batch, capacity]
        return ((self.gold.by_sentence.gather(1, stack) == self.b0[:, None]) & is_headless).sum(1)

    @cached_property
    def b0_head_is_on_stack(self) -> Tensor:
        return ((self.state.stack == self.gold_head_of_b0[:, None]) & self.state.on_stack()).any(1)


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
    finished: Callable[[State], Tensor]
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

    def legal(self, state: State) -> Tensor:
        """[batch, transitions] bool: which transitions may be taken."""
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
