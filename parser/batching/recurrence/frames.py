"""The rows of layers over frames: those of a chunk, and those before it that are still needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from parser.batching.recurrence.weights import Weights


class Frames:
    """A number for each unit of each layer, in each frame and stream; frame 0 is the chunk's first."""

    def __init__(
        self,
        weights: Weights,
        first: Mapping[str, int],
        frames: int,
        streams: int,
    ):
        """first: each layer's first frame, 0 or before it; of inputs only those that are needed."""
        self._streams, self._last = streams, frames
        self._blocks: dict[str, tuple[Tensor, int, slice]] = {}
        groups = [(bundle.columns, bundle.width) for bundle in weights.bundles]
        for name in weights.graph.inputs:
            if name in first:
                layer = weights.graph.layers[name]
                width = 1 if layer.kind == "symbols" else layer.size
                groups.append(({name: slice(0, width)}, width))
        for columns, width in groups:
            start = min(first[name] for name in columns)
            symbols = any(weights.graph.layers[name].kind == "symbols" for name in columns)
            kind = torch.int64 if symbols else weights.like.dtype
            # [frames, streams, width]
            block = torch.zeros(frames - start, streams, width, dtype=kind, device=weights.like.device)
            for name, own in columns.items():
                self._blocks[name] = (block, start, own)

    def first(self, layer: str) -> int:
        """That is kept."""
        return self._blocks[layer][1]

    def rows(self, layer: str, start: int, count: int = 1) -> Tensor:
        """[count * streams, size] From frame `start` on; a view."""
        return self.together((layer,), start, count)

    def together(self, layers: Sequence[str], start: int, count: int = 1) -> Tensor:
        """[count * streams, sizes] Of neighbours in one bundle; a view."""
        block, first, columns = self._blocks[layers[0]]
        until = self._blocks[layers[-1]][2].stop
        assert first <= start <= start + count <= self._last, (layers, start, count)
        rows = block[start - first : start - first + count].flatten(0, 1)  # [count * streams, width]
        return rows[:, columns.start : until]

    def chunk(self, layer: str) -> Tensor:
        """[frames, streams, size] From frame 0 on; a view."""
        block, first, columns = self._blocks[layer]
        return block[-first:, :, columns]

    def move(self) -> None:
        """The chunk now lies before the next one."""
        for block, first in self._each():
            if first < 0:
                kept = block[self._last :]
                block[:-first].copy_(kept.clone() if -first > self._last else kept)

    def forget(self) -> None:
        """There is nothing before the next chunk."""
        for block, first in self._each():
            block[:-first].zero_()

    def _each(self) -> list[tuple[Tensor, int]]:
        return list({id(block): (block, first) for block, first, _ in self._blocks.values()}.values())
