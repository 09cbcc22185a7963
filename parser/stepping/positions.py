"""The positions of parsers in their sentences, as rows of precomputed tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.transitions.state import State


class Positions(NamedTuple):
    """Tensors [batch] or, for many steps, [steps, batch]."""

    top: Tensor
    """Row of S0 in the vector table (words, ROOT, end of the buffer)."""
    below: Tensor
    """Row of S1 in the vector table; that of ROOT if there is no S1."""
    front: Tensor
    """Index of the buffer's front among the fronts of all sentences, see `vector_rows.front_positions`."""

    @classmethod
    def of(cls, state: State, sentences: Tensor, words: Tensor | int) -> Positions:
        """sentences: [batch] sentence of each state. words: number of all words, which is the row of ROOT."""
        on_stack = torch.stack([state.top(), state.top(below=1)])
        top, below = torch.where(on_stack > 0, state.base + on_stack, words)
        return cls(top, below, state.base + state.front + sentences)
