"""The states of a batch of parsers, their properties, and what a transition system allows in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.ragged import Ragged
from parser.transitions.system import TransitionSystem
from parser.treebank.sentence import NO_HEAD


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


def legal_kinds(system: TransitionSystem, state: State) -> Tensor:
    """[batch, kinds] bool: which transitions may be taken, whatever their labels."""
    return torch.stack(system.legal(View(state)), dim=1)


def oracle_kinds(system: TransitionSystem, state: State, gold: Gold) -> Tensor:
    """[batch, kinds] bool. The first True is the transition of the static oracle."""
    return torch.stack(system.oracle(View(state, gold)), dim=1)


def costs_of_kinds(system: TransitionSystem, state: State, gold: Gold) -> Tensor:
    """[batch, kinds] Costs, valid for legal transitions. The system must have costs."""
    return torch.stack(system.costs(View(state, gold)), dim=1)
