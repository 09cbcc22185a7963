"""Replicas of a graph: the nodes with parameters, and the mean of the replicas' weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import nn

from parser.batching.messages.graph import MessageGraph
from parser.batching.messages.parameterised import Parameterised


def parameterised(graph: MessageGraph) -> list[Parameterised]:
    """The nodes of a graph that have parameters."""
    return [node for node in graph.nodes.values() if isinstance(node, Parameterised)]


def update_all(graph: MessageGraph) -> None:
    """Update all parameters with the gradients that are accumulated, if there are any."""
    for node in parameterised(graph):
        node.update()


def staleness(graph: MessageGraph) -> Counter[int]:
    """The number of gradients by the number of updates between their forward and backward pass."""
    return sum((node.staleness for node in parameterised(graph)), Counter[int]())


@torch.no_grad()
def average(modules: Sequence[nn.Module]) -> None:
    """Set the weights of all replicas to their mean."""
    for weights in zip(*(module.parameters() for module in modules), strict=True):
        mean = torch.stack([weight.data for weight in weights]).mean(0)
        for weight in weights:
            weight.copy_(mean)
