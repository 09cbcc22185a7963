"""A recurrent network from a list to a digit, and the same network as a loop of messages (Gaunt et al. 2017).

The position in the state is (step, steps): the next token, and the number of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.messages.controller import Controller, Entry, Instance
from parser.batching.messages.graph import CONTROLLER, MessageGraph
from parser.batching.messages.grouping import ConcatenatePayloads
from parser.batching.messages.loop import add_loop, each_step
from parser.batching.messages.loss import Loss, Losses, losses_of
from parser.batching.messages.parameterised import Updates
from parser.batching.messages.routing import Condition, FlatMap, Join
from parser.batching.messages.transform import Transform
from parser.benchmarks.module_lists import typed


class RecurrentCell(nn.Module):
    """ReLU(Linear[hidden; token])"""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.linear = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, hidden: Tensor, token: Tensor) -> Tensor:
        """[lists, hidden] hidden, token: [lists, hidden]"""
        return F.relu(self.linear(torch.cat([hidden, token], dim=1)))


class ListReducer(nn.Module):
    def __init__(self, tokens: int, results: int, hidden_size: int, replicas: int = 1):
        """replicas: of the cell, with equal initial weights. An instance always uses the same replica."""
        super().__init__()
        self.hidden_size = hidden_size
        self.tokens = nn.Embedding(tokens, hidden_size)
        self.scores = nn.Linear(hidden_size, results)
        self._cells = nn.ModuleList(RecurrentCell(hidden_size) for _ in range(replicas))
        first, *others = self.cells
        for replica in others:
            replica.load_state_dict(first.state_dict())

    @property
    def cells(self) -> list[RecurrentCell]:
        """The replicas of the cell."""
        return typed(self._cells, RecurrentCell)

    def losses(self, batch: tuple[Tensor, Tensor]) -> Losses:
        """With the first replica. batch: lists [lists, tokens] of equal length, and results [lists]"""
        lists, results = batch
        hidden, cell = self._initial_state(len(lists)), self.cells[0]
        for token in self.tokens(lists).unbind(1):
            hidden = cell(hidden, token)
        return losses_of(self.scores(hidden), results)

    def instance(self, number: int, batch: tuple[Tensor, Tensor], training: bool) -> Instance:
        """batch: as in `losses`."""
        lists, results = batch
        steps = lists.shape[1]
        entries = [
            Entry(0, (self._initial_state(len(lists)),), (0, steps)),
            Entry(1, (lists,), (steps,)),
            Entry(2, (results,), (steps, steps)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Replicas are on different workers. A cell gets one gradient per step of each instance."""
        graph = MessageGraph()
        graph.add(CONTROLLER, Controller(outputs=3))
        graph.add("each step", FlatMap(each_step))
        graph.add("token", Transform(lambda state, lists: lists[:, state.position[0]]))
        graph.add("embedding", updates.of_table(self.tokens))
        graph.add("with token", ConcatenatePayloads())
        graph.add("scores", updates.of(self.scores))
        graph.add("loss", Loss(losses_of))
        graph.connect((CONTROLLER, 1), "each step")
        graph.chain("each step", "token", "embedding")
        graph.connect("embedding", ("with token", 1))
        self._add_cells(graph, updates, workers)
        graph.connect(add_loop(graph, CONTROLLER, "with token", "any cell"), "scores")
        graph.chain("scores", "loss", CONTROLLER)
        graph.connect((CONTROLLER, 2), ("loss", 1))
        return graph

    def _add_cells(self, graph: MessageGraph, updates: Updates, workers: int) -> None:
        """Add the cells between `with token` and `any cell`."""
        replicas = len(self._cells)
        graph.add("which cell", Condition(lambda state: state.instance % replicas, replicas))
        graph.add("any cell", Join(replicas))
        graph.chain("with token", "which cell")
        for number, cell in enumerate(self.cells):
            name = f"cell {number + 1}"
            graph.add(name, updates.of_repeated(cell), (number + 1) % workers)
            graph.connect(("which cell", number), name)
            graph.connect(name, ("any cell", number))

    def replicas(self) -> Sequence[Sequence[nn.Module]]:
        return (self.cells,)

    def _initial_state(self, lists: int) -> Tensor:
        """[lists, hidden]"""
        return torch.zeros(lists, self.hidden_size)
