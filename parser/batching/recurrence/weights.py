"""The parameters of a network. Layers with equal sources share one matrix, so they need a single product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from parser.batching.recurrence.layer_graph import Connection, LayerGraph, components, first_frames


class Source(NamedTuple):
    layer: str
    delay: int
    in_cycle: bool
    """Whether the connection lies in a strongly connected component."""


class Bundle(NamedTuple):
    """Layers whose full connections come from the same sources: they are columns of one matrix.

    Layers that share only some of their sources, as in a GRU, have separate products.
    """

    layers: tuple[str, ...]
    columns: dict[str, slice]
    sources: tuple[Source, ...]
    has_bias: bool
    width: int


def bundles_of(graph: LayerGraph) -> list[Bundle]:
    """Partition all layers except the inputs. Within a bundle, layers of equal activation are adjacent."""
    parts = components(graph)
    number = {layer: position for position, part in enumerate(parts) for layer in part.layers}
    first = first_frames(graph, parts, back=1)  # errors of earlier frames reach some layers and not others
    groups: dict[tuple, list[str]] = {}
    for layer in number:
        sources = tuple(
            sorted(
                Source(each.source, each.delay, number.get(each.source) == number[layer])
                for each in graph.into(layer)
                if each.weight == "full"
            )
        )
        alone = () if sources else (layer,)
        groups.setdefault((sources, graph.has_bias(layer), first[layer], *alone), []).append(layer)
    bundles = []
    for (sources, has_bias, *_), layers in groups.items():
        layers.sort(key=lambda layer: (number[layer], graph.layers[layer].activation))
        columns, width = {}, 0
        for layer in layers:
            columns[layer] = slice(width, width := width + graph.layers[layer].size)
        bundles.append(Bundle(tuple(layers), columns, sources, has_bias, width))
    return bundles


class Weights(nn.Module):
    """The parameters of a network: matrices, tables of symbols, diagonals and biases.

    >>> weights = Weights(elman(Layer(size=3, kind="input"), 4))
    >>> sorted(weight.numel() for weight in weights.parameters())
    [4, 12, 16]
    """

    def __init__(self, graph: LayerGraph):
        super().__init__()
        self.graph = graph
        self.bundles = bundles_of(graph)
        self.bundle_of = {layer: bundle for bundle in self.bundles for layer in bundle.layers}
        self.register_buffer("_like", torch.empty(0), persistent=False)
        # Keys are numbers, because the name of a layer may clash with an attribute of the module.
        self._matrices, self._tables = nn.ParameterDict(), nn.ModuleDict()
        self._biases, self._diagonals = nn.ParameterDict(), nn.ParameterDict()
        for number, bundle in enumerate(self.bundles):
            for source in bundle.sources:
                size, key = graph.layers[source.layer].size, self._key(bundle, source)
                if self.is_table(source):
                    table = nn.Embedding(size, bundle.width, sparse=True)
                    nn.init.normal_(table.weight, std=0.1)
                    self._tables[key] = table
                else:
                    bound = 1 / math.sqrt(size)
                    matrix = torch.empty(bundle.width, size).uniform_(-bound, bound)
                    self._matrices[key] = nn.Parameter(matrix)
            if bundle.has_bias:
                self._biases[str(number)] = nn.Parameter(torch.zeros(bundle.width))
        for number, connection in enumerate(graph.connections):
            if connection.weight == "diagonal":
                size = graph.layers[connection.source].size
                self._diagonals[str(number)] = nn.Parameter(0.1 * torch.randn(size))

    @property
    def like(self) -> Tensor:
        """An empty tensor with the device and dtype of the weights, even if there are no weights."""
        return self.get_buffer("_like")

    def matrix(self, bundle: Bundle, source: Source) -> nn.Parameter:
        """[width, size of the source] The weights of a source, or for symbols a table [symbols, width]."""
        key = self._key(bundle, source)
        if not self.is_table(source):
            return self._matrices[key]
        table = self._tables[key]
        assert isinstance(table, nn.Embedding)
        assert isinstance(table.weight, nn.Parameter)
        return table.weight

    def is_table(self, source: Source) -> bool:
        return self.graph.layers[source.layer].kind == "symbols"

    def bias_of(self, bundle: Bundle) -> nn.Parameter | None:
        """[width] The bias of a bundle; None for a bundle without bias."""
        return self._biases[str(self.bundles.index(bundle))] if bundle.has_bias else None

    def diagonal(self, connection: Connection) -> nn.Parameter:
        """[size] The weight of a diagonal connection."""
        return self._diagonals[str(self.graph.connections.index(connection))]

    def of(self, connection: Connection) -> Tensor:
        """The slice of a parameter for one connection: [target size, source size], or [size] if diagonal."""
        if connection.weight == "diagonal":
            return self.diagonal(connection)
        bundle = self.bundle_of[connection.target]
        ends = (connection.source, connection.delay)
        source = next(source for source in bundle.sources if source[:2] == ends)
        matrix, columns = self.matrix(bundle, source), bundle.columns[connection.target]
        return matrix[:, columns].T if self.is_table(source) else matrix[columns]

    def bias(self, layer: str) -> Tensor:
        """[size] The bias of a layer that has one."""
        bundle = self.bundle_of[layer]
        bias = self.bias_of(bundle)
        assert bias is not None
        return bias[bundle.columns[layer]]

    def out_of(self, layer: str) -> Iterator[tuple[Bundle, Source]]:
        for bundle in self.bundles:
            for source in bundle.sources:
                if source.layer == layer:
                    yield bundle, source

    def _key(self, bundle: Bundle, source: Source) -> str:
        return f"{self.bundles.index(bundle)} {bundle.sources.index(source)}"
