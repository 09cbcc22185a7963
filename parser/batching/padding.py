"""Padding of sequences of different lengths, in groups of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

GROUP_ON_CPU = 64
"""On a CPU every padded frame costs time, and larger groups gain nothing."""


def group_size(device: torch.device) -> int | None:
    """The best number of sequences to pad together; None for all, to save kernel launches on a GPU."""
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
        """lengths: [sequences], preferably sorted; size: of a group, None for a single group."""
        size = size or len(lengths)
        return cls(size, tuple((int(group.max()), len(group)) for group in lengths.split(size)))

    @property
    def rows(self) -> int:
        return sum(frames * sequences for frames, sequences in self.shapes)

    def row(self, frame: Tensor, sequence: Tensor) -> Tensor:
        """[n] The flat row of frame [n] of sequence [n]."""
        frames, widths = torch.tensor(self.shapes).unbind(1)
        starts = (frames * widths).cumsum(0) - frames * widths
        group = sequence // self.size
        return starts[group] + frame * widths[group] + sequence % self.size

    def spread(self, frame: Tensor, sequence: Tensor, values: Tensor, fill: int) -> tuple[Tensor, ...]:
        """Scatter values [n] to frames [n] of sequences [n]. Returns the blocks, `fill` everywhere else."""
        flat = values.new_full((self.rows,), fill)
        flat[self.row(frame, sequence)] = values
        blocks = flat.split([frames * sequences for frames, sequences in self.shapes])
        return tuple(block.view(shape) for block, shape in zip(blocks, self.shapes, strict=True))


def flatten(blocks: Sequence[Tensor]) -> Tensor:
    """[rows, ...] Blocks [frames, sequences, ...], flattened and concatenated."""
    flat = [block.flatten(0, 1) for block in blocks]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
