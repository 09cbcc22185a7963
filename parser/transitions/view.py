"""The properties of states and gold trees that transition rules use, each computed at most once."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from parser.transitions.gold import Gold
from parser.transitions.state import State


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
        return self.gold.is_complete(self.state, self.s0)

    @cached_property
    def s0_dependents_in_buffer(self) -> Tensor:
        """[batch] long, number of gold dependents of S0 in the buffer, including B0."""
        return self.gold.dependents_in_buffer(self.state, self.s0)

    @cached_property
    def b0_dependents_on_stack(self) -> Tensor:
        """[batch] long, number of gold dependents of B0 that are on the stack without a head."""
        return self.gold.dependents_on_stack(self.state, self.b0)

    @cached_property
    def b0_head_is_on_stack(self) -> Tensor:
        return self.state.has_on_stack(self.gold_head_of_b0)
