"""Linear layers for images of digits, and the same network as a graph of messages (Gaunt et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.grouping import ConcatenatePayloads
from parser.batching.messages.loss import Loss, Losses, losses_of
from parser.batching.messages.parameterised import Updates
from parser.batching.messages.routing import Broadcast
from parser.batching.messages.transform import Transform
from parser.benchmarks.module_lists import typed


class DigitClassifier(nn.Module):
    """Linear layers with ReLUs in between. Each tile of a layer computes a slice of its outputs."""

    def __init__(self, widths: Sequence[int], tiles: Sequence[int]):
        """widths: of the input and of the output of each layer; tiles: of each layer but the last.

        Raises ValueError if a layer cannot be cut into tiles of equal size.
        """
        super().__init__()
        for width, count in zip(widths[1:-1], tiles, strict=True):
            if width % count:
                raise ValueError(f"{width} outputs cannot be cut into {count} tiles of equal size")
        counts = [*tiles, 1]
        self._layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(inputs, outputs // count) for _ in range(count))
            for (inputs, outputs), count in zip(pairwise(widths), counts, strict=True)
        )

    @property
    def layers(self) -> list[list[nn.Linear]]:
        """The tiles of each layer."""
        return [typed(tiles, nn.Linear) for tiles in typed(self._layers, nn.ModuleList)]

    def losses(self, batch: tuple[Tensor, Tensor]) -> Losses:
        """batch: images [images, pixels] and labels [images]"""
        rows, labels = batch
        for number, tiles in enumerate(self.layers, 1):
            rows = torch.cat([tile(rows) for tile in tiles], dim=1)
            if number < len(self._layers):
                rows = F.relu(rows)
        return losses_of(rows, labels)

    def replicas(self) -> Sequence[Sequence[nn.Module]]:
        """No replicas."""
        return ()

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Tiles of a layer are on different workers. Adjacent layers of one tile each share a worker."""
        graph = MessageGraph()
        graph.add(CONTROLLER, Controller(outputs=2))
        last = CONTROLLER
        for number, tiles in enumerate(self.layers):
            own = number * workers // len(self._layers)
            is_last = number + 1 == len(self._layers)
            parts = [tile if is_last else nn.Sequential(tile, nn.ReLU()) for tile in tiles]
            last = _add_layer(graph, f"layer {number + 1}", last, parts, updates, own, workers)
        graph.add("loss", Loss(losses_of), workers - 1)
        graph.chain(last, "loss", CONTROLLER)
        graph.connect((CONTROLLER, 1), ("loss", 1))
        return graph

    @staticmethod
    def instance(number: int, batch: tuple[Tensor, Tensor], training: bool) -> Instance:
        """batch: as in `losses`."""
        images, labels = batch
        return Instance(number, [Entry(0, (images,)), Entry(1, (labels,))], training=training)


def _add_layer(
    graph: MessageGraph,
    name: str,
    before: str,
    tiles: Sequence[nn.Module],
    updates: Updates,
    worker: int,
    workers: int,
) -> str:
    """Add a layer, and return its last node. worker: of the layer, or of the node that joins its tiles."""
    if len(tiles) == 1:
        graph.add(name, updates.of(tiles[0]), worker)
        graph.connect(before, name)
        return name
    copies, parts, whole = f"{name}: copies", f"{name}: parts", f"{name}: whole"
    graph.add(copies, Broadcast(len(tiles)), worker)
    graph.add(parts, ConcatenatePayloads(len(tiles)), worker)
    graph.add(whole, Transform(lambda _, *columns: torch.cat(columns, dim=1)), worker)
    graph.chain(before, copies)
    for place, tile in enumerate(tiles):
        own = f"{name}, tile {place + 1}"
        graph.add(own, updates.of(tile), place % workers)
        graph.connect((copies, place), own)
        graph.connect(own, (parts, place))
    graph.connect(parts, whole)
    return whole
