"""The trees that an oracle follows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parser.transitions.state import State
from parser.treebank.sentence import NO_HEAD


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
        return self.heads[state.flat_index(word)]

    def is_complete(self, state: State, word: Tensor) -> Tensor:
        """[batch] Whether no gold dependent of the words [batch] is left in the buffer."""
        return self.last_dependent[state.flat_index(word)] < state.front

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
