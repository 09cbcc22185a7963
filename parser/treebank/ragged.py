"""Ragged tensors: rows of different lengths in one flat tensor, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths.

    values: [total, ...] elements of all rows, row by row. lengths: [rows] number of elements in each row.
    """

    values: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Sequence[Tensor]) -> Ragged:
        """Concatenate rows [length, ...]."""
        return cls(torch.cat(list(rows)), torch.tensor([len(row) for row in rows]))

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        """Concatenate the rows of several ragged tensors."""
        return cls(torch.cat([part.values for part in parts]), torch.cat([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """[rows] Index in `values` of the first element of each row."""
        return self.lengths.cumsum(0) - self.lengths

    def elements(self, rows: Tensor) -> Tensor:
        """[selected total] Indices in `values` of all elements of the given rows, row by row."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum(0)
        shift = self.offsets[rows] - (ends - lengths)
        return torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)

    def select(self, rows: Tensor) -> Ragged:
        """The given rows [selected], in this order."""
        return Ragged(self.values[self.elements(rows)], self.lengths[rows])

    def row_of_element(self) -> Tensor:
        """[total] Row of each element."""
        rows = torch.arange(len(self), device=self.lengths.device)
        return rows.repeat_interleave(self.lengths, output_size=len(self.values))

    def position_in_row(self) -> Tensor:
        """[total] Position of each element in its row, from 0."""
        starts = self.offsets.repeat_interleave(self.lengths, output_size=len(self.values))
        return torch.arange(len(self.values), device=self.lengths.device) - starts

    def unflatten(self) -> list[Tensor]:
        """One tensor [length, ...] for each row."""
        return list(self.values.split(self.lengths.tolist()))
