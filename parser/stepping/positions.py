"""Where parsers are in their sentences, by rows of what was computed before the first transition."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.transitions.state import State


class Positions(NamedTuple):
    """Of parsers in their sentences: tensors [batch], or [steps, batch] for many steps of each."""

    top: Tensor
    """Row, in the table of vectors (words, ROOT, the buffer's end), of the word on top of the stack."""
    below: Tensor
    """The same of the word below, ROOT if there is none."""
    front: Tensor
    """Row of the buffer's front among all sentences': each has one more than words, for the empty buffer."""

    @classmethod
    def of(cls, state: State, sentences: Tensor, words: Tensor | int) -> Positions:
        """sentences: [batch], whose the states are; words: the number of all words, which is ROOT's row."""
        on_stack = state.words()[:2]
        top, below = torch.where(on_stack > 0, state.base + on_stack, words)
        return cls(top, below, state.base + state.front + sentences)
