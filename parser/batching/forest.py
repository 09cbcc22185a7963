"""Forests, in which each node has at most one parent: stacks whose operations are known, or sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.levels import in_order
from parser.batching.transfer import all_to_device


class Level(NamedTuple):
    """The nodes of one level, as positions in execution order."""

    nodes: slice
    parents: slice
    """The nodes of the previous level that have children; empty for level 0."""


@dataclass(frozen=True)
class Forest:
    """The nodes of a forest in execution order: by level, and within a level those with children first.

    order: [nodes], the node at each position; position: [nodes], the position of each node; parent: [nodes],
    for each position, the index of its parent within the `parents` of its level.
    """

    order: Tensor
    position: Tensor
    parent: Tensor
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, parent: Tensor, depth: Tensor) -> Forest:
        """parent: [nodes], -1 for a root; depth: [nodes], 0 for a root, else the depth of its parent + 1."""
        has_child = torch.zeros(len(parent), dtype=torch.bool)
        has_child[parent[parent >= 0]] = True
        order = torch.from_numpy(in_order(depth.numpy(), (~has_child).numpy()))
        position = torch.empty_like(order)
        position[order] = torch.arange(len(order))
        sizes = torch.bincount(depth)
        parent_counts = torch.bincount(depth[has_child], minlength=len(sizes))
        level_starts = sizes.cumsum(0) - sizes
        start_above = level_starts[(depth[order] - 1).clamp(min=0)]
        parent_place = position[parent[order].clamp(min=0)] - start_above
        levels = tuple(levels_of(sizes.tolist(), parent_counts.tolist()))
        return cls(order, position, parent_place, levels)

    def to(self, device: torch.device) -> Forest:
        """Move `parent` to the device. Running needs no other tensor there."""
        return all_to_device(self, device)

    def map(self, function: Callable[[Tensor], Tensor]) -> Forest:
        """With a function applied to the tensor that a device needs."""
        return replace(self, parent=function(self.parent))


def levels_of(sizes: Sequence[int], parent_counts: Sequence[int]) -> Iterator[Level]:
    """sizes: nodes of each level; parent_counts: of these, the nodes with children, which come first."""
    start, parents = 0, slice(0, 0)
    for size, parent_count in zip(sizes, parent_counts, strict=True):
        yield Level(slice(start, start + size), parents)
        parents = slice(start, start + parent_count)
        start += size


@dataclass(frozen=True)
class StackForest:
    """The forest of states in a batch of stacks whose operations are known.

    Node 0 is the first row of a stack, node t + 1 the row that step t writes. Tensors are [batch, steps + 1].
    """

    parent: Tensor
    """The node below each node in its stack; -1 for node 0."""
    top: Tensor
    """The node on top before each step and, in the last column, after all steps."""
    depth: Tensor
    """The height of each node in its stack, 0 for node 0."""
    is_node: Tensor
    """bool; False where the row of a step is never read, such as that of a pop."""

    @classmethod
    def of(cls, read: Tensor, move: Tensor) -> StackForest:
        """read, move: [batch, steps], see `StackOperation`; without the push of the first row."""
        batch, steps = read.shape
        parent = read.new_full((batch, steps + 1), -1)
        top = read.new_zeros(batch, steps + 1)
        depth = read.new_zeros(batch, steps + 1)
        rows = read.new_zeros(batch, steps + 2)
        pointer = read.new_zeros(batch)
        for step in range(steps):
            previous = pointer - read[:, step]
            parent[:, step + 1] = rows.gather(1, previous[:, None]).squeeze(1)
            depth[:, step + 1] = previous + 1
            rows.scatter_(1, previous[:, None] + 1, step + 1)
            pointer = pointer + move[:, step]
            top[:, step + 1] = rows.gather(1, pointer[:, None]).squeeze(1)
        written_to_top = move == 1 - read
        first = torch.ones(batch, 1, dtype=torch.bool, device=read.device)
        return cls(parent, top, depth, torch.cat([first, written_to_top], dim=1))
