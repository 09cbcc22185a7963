"""Small graphs that several tests run."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from checked_nodes import check_all
from torch import Tensor, nn

from parser.batching.messages.asynchronous_updates import BackwardWeights, Parameterised
from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.message_graph import CONTROLLER, MessageGraph
from parser.batching.messages.node import Loss, Transform, losses_of

SGD = partial(torch.optim.SGD, lr=0.02)


def two_layers() -> list[nn.Linear]:
    torch.manual_seed(1)
    return [nn.Linear(5, 7).double(), nn.Linear(7, 3).double()]


def layers_in_a_row(
    first: nn.Module, second: nn.Module, update_after: int = 1, backward_weights: BackwardWeights = "forward"
) -> MessageGraph:
    graph = MessageGraph()
    graph.add(CONTROLLER, Controller(outputs=2))
    graph.add("first", Parameterised(first, SGD, update_after, backward_weights), worker=0)
    graph.add("relu", Transform(lambda _, rows: F.relu(rows)), worker=1)
    graph.add("second", Parameterised(second, SGD, update_after, backward_weights), worker=1)
    graph.add("loss", Loss(losses_of))
    graph.chain(CONTROLLER, "first", "relu", "second", "loss", CONTROLLER)
    graph.connect((CONTROLLER, 1), ("loss", 1))
    check_all(graph)
    return graph


def examples(number: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.randn(4, 5, generator=generator).double(), torch.randint(3, (4,), generator=generator))
        for _ in range(number)
    ]


def instances(data: list[tuple[Tensor, Tensor]], training: bool = True) -> list[Instance]:
    return [
        Instance(number, [Entry(0, (rows,)), Entry(1, (labels,))], training=training)
        for number, (rows, labels) in enumerate(data)
    ]
