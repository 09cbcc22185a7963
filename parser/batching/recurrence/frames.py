"""The values or errors of layers: the frames of a chunk, and the earlier frames that are still needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from parser.batching.recurrence.weights import Weights


class Frames:
    """A number for each unit of each layer, frame and stream. Frame 0 is the first of the chunk."""

    def __init__(
        self,
        weights: Weights,
        first: Mapping[str, int],
        frames: int,
        streams: int,
    ):
        """first: the first frame of each layer, at most 0; inputs that are not needed are left out."""
        self.streams, self._last = streams, frames
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

    def rows(self, layer: str, start: int, count: int = 1) -> Tensor:
        """[count * streams, size] The rows of a layer from frame `start` on; a view."""
        return self.together((layer,), start, count)

    def together(self, layers: Sequence[str], start: int, count: int = 1) -> Tensor:
        """[count * streams, sizes] Rows of adjacent layers of one bundle, from frame `start` on; a view."""
        block, first, columns = self._blocks[layers[0]]
        until = self._blocks[layers[-1]][2].stop
        assert first <= start <= start + count <= self._last, (layers, start, count)
        rows = block[start - first : start - first + count].flatten(0, 1)  # [count * streams, width]
        return rows[:, columns.start : until]

    def chunk(self, layer: str) -> Tensor:
        """[frames, streams, size] The layer from frame 0 on; a view."""
        block, first, columns = self._blocks[layer]
        return block[-first:, :, columns]

    def move(self) -> None:
        """Move on to the next chunk: the last frames become earlier frames."""
        for block, first in self._each():
            if first < 0:
                # Copy in pieces that do not overlap.
                for start in range(0, -first, self._last):
                    until = min(start + self._last, -first)
                    block[start:until].copy_(block[start + self._last : until + self._last])

    def forget(self) -> None:
        """Set all earlier frames to zero."""
        for block, first in self._each():
            block[:-first].zero_()

    def _each(self) -> list[tuple[Tensor, int]]:
        return list({id(block): (block, first) for block, first, _ in self._blocks.values()}.values())
