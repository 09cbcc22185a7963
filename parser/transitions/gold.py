"""Gold trees, in the layout that oracles need."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parser.transitions.state import State
from parser.treebank.sentence import NO_HEAD


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

    def is_complete(self, state: State, word: Tensor) -> Tensor:
        """[batch] bool: no gold dependent of the words [batch] is in the buffer."""
        return self.last_dependent[state.flat_index(word)] < state.front

    def dependents_in_buffer(self, state: State, word: Tensor) -> Tensor:
        """[batch] Number of gold dependents of the words [batch] in the buffer, including B0."""
        words = torch.arange(self.by_sentence.shape[1], device=word.device)
        return ((self.by_sentence == word[:, None]) & (words >= state.front[:, None])).sum(1)

    def dependents_on_stack(self, state: State, word: Tensor) -> Tensor:
        """[batch] Number of gold dependents of the words [batch] that are on the stack without a head."""
        stack = state.stack
        exists = stack > 0
        index = torch.where(exists, state.base[:, None] + stack, len(state.heads) - 1)
        is_headless = state.on_stack() & (state.heads[index] == NO_HEAD)
        return ((self.by_sentence.gather(1, stack) == word[:, None]) & is_headless).sum(1)
