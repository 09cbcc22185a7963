"""Sequences of different lengths in one flat tensor, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, one after the other.

    values: [total, ...], the rows' elements; lengths: [rows], elements of each row.
    """

    values: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, rows: Sequence[Tensor]) -> Ragged:
        """Join tensors [length, ...] that differ in nothing but their length."""
        return cls(torch.cat(list(rows)), torch.tensor([len(row) for row in rows]))

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all, one after the other."""
        return cls(torch.cat([part.values for part in parts]), torch.cat([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """[rows] Where each row begins in `values`."""
        return self.lengths.cumsum(0) - self.lengths

    def elements(self, rows: Tensor) -> Tensor:
        """[selected total] Positions in `values` of the elements of `rows`, row after row."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum(0)
        shift = self.offsets[rows] - (ends - lengths)
        return torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)

    def select(self, rows: Tensor) -> Ragged:
        """The rows [selected], in that order."""
        return Ragged(self.values[self.elements(rows)], self.lengths[rows])

    def row_of_element(self) -> Tensor:
        """[total] The row that each element belongs to."""
        rows = torch.arange(len(self), device=self.lengths.device)
        return rows.repeat_interleave(self.lengths, output_size=len(self.values))

    def position_in_row(self) -> Tensor:
        """[total] 0, 1, 2, ... within each row."""
        starts = self.offsets.repeat_interleave(self.lengths, output_size=len(self.values))
        return torch.arange(len(self.values), device=self.lengths.device) - starts

    def unflatten(self) -> list[Tensor]:
        """One tensor [length, ...] for each row."""
        return list(self.values.split(self.lengths.tolist()))
