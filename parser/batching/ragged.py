"""Rows of different lengths: in one flat tensor without padding, padded in groups, and rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths.

    values: [total, ...], the elements of all rows, row by row; lengths: [rows], the number of elements in
    each row.

    >>> rows = Ragged.of([torch.tensor([1, 2]), torch.tensor([3])])
    >>> rows.select(torch.tensor([1, 0])).values.tolist()
    [3, 1, 2]
    """

    values: Tensor
    lengths: Tensor
    lengths_on_host: Tensor | None = None
    """The lengths on the host, where layouts are computed. None if `lengths` are there."""

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

    @property
    def host_lengths(self) -> Tensor:
        """[rows] The lengths on the host."""
        return self.lengths if self.lengths_on_host is None else self.lengths_on_host

    def map(self, function: Callable[[Tensor], Tensor]) -> Ragged:
        """With a function applied to elements and lengths. The lengths on the host stay there."""
        return Ragged(function(self.values), function(self.lengths), self.host_lengths)

    def elements(self, rows: Tensor) -> Tensor:
        """[selected total] Indices in `values` of all elements of the given rows, row by row."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum(0)
        shift = self.offsets[rows] - (ends - lengths)
        return torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)

    def select(self, rows: Tensor) -> Ragged:
        """Return the given rows [selected], in this order."""
        return Ragged(self.values[self.elements(rows)], self.lengths[rows])

    def row_of_element(self) -> Tensor:
        """[total] The row of each element."""
        rows = torch.arange(len(self), device=self.lengths.device)
        return rows.repeat_interleave(self.lengths, output_size=len(self.values))

    def position_in_row(self) -> Tensor:
        """[total] The position of each element in its row, from 0."""
        starts = self.offsets.repeat_interleave(self.lengths, output_size=len(self.values))
        return torch.arange(len(self.values), device=self.lengths.device) - starts

    def unflatten(self) -> list[Tensor]:
        """Return one tensor [length, ...] for each row."""
        return list(self.values.split(self.lengths.tolist()))


GROUP_ON_CPU = 64
"""Sequences padded together on a CPU, where every padded frame costs time and larger groups gain nothing."""


def group_size(device: torch.device) -> int | None:
    """Return the best number of sequences to pad together; None for all, to save kernel launches on a GPU."""
    return GROUP_ON_CPU if device.type == "cpu" else None


@dataclass(frozen=True)
class Padding:
    """The layout of padded sequences. Each group is a block [frames of its longest sequence, sequences].

    The blocks are flattened and concatenated.
    """

    size: int
    """The number of sequences in each group but the last."""
    shapes: tuple[tuple[int, int], ...]
    """The numbers of frames and sequences of each block."""

    @classmethod
    def of(cls, lengths: Tensor, size: int | None) -> Padding:
        """lengths: [sequences], preferably sorted; size: the size of a group, None for a single group."""
        size = size or len(lengths)
        return cls(size, tuple((int(group.max()), len(group)) for group in lengths.split(size)))

    @property
    def rows(self) -> int:
        return sum(frames * sequences for frames, sequences in self.shapes)

    def row(self, frame: Tensor, sequence: Tensor) -> Tensor:
        """[n] The flat row of each frame [n] of the sequence [n]."""
        if len(self.shapes) == 1:  # without an upload
            [(_, width)] = self.shapes
            return frame * width + sequence
        frames, widths = torch.tensor(self.shapes).unbind(1)
        starts = (frames * widths).cumsum(0) - frames * widths
        group = sequence // self.size
        return starts[group] + frame * widths[group] + sequence % self.size

    def spread(self, frame: Tensor, sequence: Tensor, values: Tensor, fill: int) -> tuple[Tensor, ...]:
        """Scatter values [n] to frames [n] of sequences [n]. Returns the blocks, with `fill` elsewhere."""
        flat = values.new_full((self.rows,), fill)
        flat[self.row(frame, sequence)] = values
        blocks = flat.split([frames * sequences for frames, sequences in self.shapes])
        return tuple(block.view(shape) for block, shape in zip(blocks, self.shapes, strict=True))


def slices_of(sizes: Iterable[int]) -> list[slice]:
    """Return the slices of adjacent parts of these sizes."""
    return [slice(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0))]


def flatten(blocks: Sequence[Tensor]) -> Tensor:
    """[rows, ...] Blocks [frames, sequences, ...], flattened and concatenated."""
    flat = [block.flatten(0, 1) for block in blocks]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def gather_rows(table: Tensor, rows: Tensor) -> Tensor:
    """[..., size] Rows [...] of a table [rows, size].

    On a GPU, the gradient of `embedding` sorts the rows, which takes many kernels; that of `index_select`
    does not. On a CPU the gradient of `embedding` is faster.
    """
    if table.is_cuda:
        return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[1])
    return F.embedding(rows, table)
