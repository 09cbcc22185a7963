"""Sequences of different lengths, padded in groups of like length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

GROUP_ON_CPU = 64
"""On a CPU every padded frame costs time, and larger groups bring nothing."""


def group_size(device: torch.device) -> int | None:
    """How many sequences are best padded together; None for all: on a GPU each group costs launches."""
    return GROUP_ON_CPU if device.type == "cpu" else None


@dataclass(frozen=True)
class Padding:
    """Where the frames of sequences lie when each group is a block [frames of its longest, sequences].

    The blocks are laid out flat, one after the other.
    """

    size: int
    """Sequences of each group but the last."""
    shapes: tuple[tuple[int, int], ...]
    """Frames and sequences of each block."""

    @classmethod
    def of(cls, lengths: Tensor, size: int | None) -> Padding:
        """lengths: [sequences], best sorted; size: of a group, None for a single one."""
        size = size or len(lengths)
        return cls(size, tuple((int(group.max()), len(group)) for group in lengths.split(size)))

    @property
    def rows(self) -> int:
        return sum(frames * sequences for frames, sequences in self.shapes)

    def row(self, frame: Tensor, sequence: Tensor) -> Tensor:
        """[n] The flat place of frames [n] of sequences [n]."""
        frames, widths = torch.tensor(self.shapes).unbind(1)
        starts = (frames * widths).cumsum(0) - frames * widths
        group = sequence // self.size
        return starts[group] + frame * widths[group] + sequence % self.size

    def spread(self, frame: Tensor, sequence: Tensor, values: Tensor, fill: int) -> tuple[Tensor, ...]:
        """The blocks with values [n] at frames [n] of sequences [n], and `fill` everywhere else."""
        flat = values.new_full((self.rows,), fill)
        flat[self.row(frame, sequence)] = values
        blocks = flat.split([frames * sequences for frames, sequences in self.shapes])
        return tuple(block.view(shape) for block, shape in zip(blocks, self.shapes, strict=True))


def flatten(blocks: Sequence[Tensor]) -> Tensor:
    """[rows, ...] Blocks [frames, sequences, ...] laid out flat."""
    return torch.cat([block.flatten(0, 1) for block in blocks])
