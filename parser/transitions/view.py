"""What transitions look at in a batch of states and in the gold trees, each computed once."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from parser.transitions.gold import Gold
from parser.transitions.state import State


class View:
    """Tensors [batch], bool unless said.

    S0 and S1 are the words on top of the stacks and below that, ROOT where there is none; B0 is the first
    word of the buffers.
    """

    def __init__(self, state: State, gold: Gold | None = None):
        """gold: for what is asked about gold trees."""
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
        """[batch] long; one more than the last word where the buffer is empty."""
        return self.state.front

    @cached_property
    def words_left(self) -> Tensor:
        """[batch] long, in the buffer."""
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
        """[batch] long, so far; NO_HEAD for none."""
        return self.state.head_of(self.s0)

    @property
    def gold(self) -> Gold:
        assert self._gold is not None
        return self._gold

    @cached_property
    def gold_head_of_s0(self) -> Tensor:
        """[batch] long; so for the next two."""
        return self.gold.head_of(self.state, self.s0)

    @cached_property
    def gold_head_of_s1(self) -> Tensor:
        return self.gold.head_of(self.state, self.s1)

    @cached_property
    def gold_head_of_b0(self) -> Tensor:
        return self.gold.head_of(self.state, self.b0)

    @cached_property
    def s0_is_complete(self) -> Tensor:
        """Whether no gold dependent is left in the buffer."""
        return self.gold.is_complete(self.state, self.s0)

    @cached_property
    def s0_dependents_ahead(self) -> Tensor:
        """[batch] long, how many gold dependents of S0 are in the buffer, B0 included."""
        return self.gold.dependents_in_buffer(self.state, self.s0)

    @cached_property
    def b0_dependents_behind(self) -> Tensor:
        """[batch] long, how many gold dependents of B0 are on the stack and have no head yet."""
        return self.gold.dependents_on_stack(self.state, self.b0)

    @cached_property
    def b0_head_is_on_stack(self) -> Tensor:
        return self.state.has_on_stack(self.gold_head_of_b0)
