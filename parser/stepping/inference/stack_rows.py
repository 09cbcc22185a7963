"""The rows of a batch of stacks, and what is kept of each."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from parser.stepping.inference.lstm import LSTMStates

NO_ROW, ROOT = 0, 1
"""Heights: below ROOT, where stacks have no row; and that of ROOT, which no transition replaces."""


class StackRow(NamedTuple):
    """Tensors [rows, size]; of size 0 where the network does not need them."""

    hidden: Tensor
    cell: Tensor
    as_top: Tensor
    """What the row adds to the scores' input as S0."""
    as_below: Tensor
    """What it adds as S1, with word features."""
    vector: Tensor
    """The word vector, which compositions read."""


class StackRows:
    """A batch of stacks with ROOT alone."""

    def __init__(self, batch: int, root: StackRow, capacity: int = 16):
        """root: one row."""
        self._column = torch.arange(batch, device=root.hidden.device)
        self.top = torch.full_like(self._column, ROOT)
        """[batch] The heights of the top rows."""
        self.rows = StackRow(*(part.repeat(capacity * batch, 1) for part in root))
        """[heights * batch, size] Rows of equal height are adjacent, so that stacks can grow."""

    def reserve(self, depth: int) -> bool:
        """Make room for stacks of `depth` rows, and one above them for what is not read.

        Returns whether the rows are in another place now.
        """
        batch = len(self._column)
        needed, present = (depth + 2) * batch, len(self.rows.hidden)
        if needed > present:
            more = max(needed, 2 * present) - present
            grown = (torch.cat([part, part.new_zeros(more, part.shape[1])]) for part in self.rows)
            self.rows = StackRow(*grown)
        return needed > present

    def restart(self, which: Tensor) -> None:
        """Leave only ROOT on the stacks where `which` [batch] is True."""
        self.top.masked_fill_(which, ROOT)

    def index(self, height: Tensor) -> Tensor:
        """[batch] The indices of the rows at heights [batch]."""
        return height * len(self._column) + self._column

    def states(self, index: Tensor) -> LSTMStates:
        """A copy of the states of rows [n]."""
        return LSTMStates(self.rows.hidden.index_select(0, index), self.rows.cell.index_select(0, index))

    def write(self, index: Tensor, states: LSTMStates, as_top: Tensor, as_below: Tensor) -> None:
        """Replace rows [n], but their word vectors."""
        for part, values in zip(self.rows, (*states, as_top, as_below), strict=False):
            part.index_copy_(0, index, values)
