"""The gated graph network in PyTorch Geometric, compared with ours: the same weights, batches and steps.

python scripts/studies/peers/pyg_graph_network.py runs/peers/problems/molecules --threads 2

PyG's own `GatedGraphConv` has one kind of edges, and different weights in each step. By default it is
extended by kinds of edges, with weights that all steps share, so that it computes the same as our network;
the script prints the loss of the first batch, next to our program's. `--plain` uses PyG's layer unchanged,
which computes less. The script prints examples per second.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GatedGraphConv, global_add_pool
from torch_geometric.utils import softmax

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from same_work import Problem, argument_parser, print_speed


class Batch(NamedTuple):
    """A batch of graphs as one graph."""

    features: Tensor
    """[nodes, features]"""
    edges: Tensor
    """[2, edges] Sources and targets."""
    kinds: Tensor
    """[edges]"""
    graph: Tensor
    """[nodes] The graph of each node."""
    answers: Tensor
    """[graphs] Nodes, or numbers."""


def batches_of(problem: Problem) -> list[Batch]:
    names = ("features", "sources", "targets", "kinds", "graph", "answers")
    parts = [map(torch.from_numpy, problem.ragged(name)) for name in names]
    return [
        Batch(
            features.float().view(len(graph), -1),
            torch.stack([sources, targets]).long(),
            kinds.long(),
            graph.long(),
            answers.float() if answers.is_floating_point() else answers.long(),
        )
        for features, sources, targets, kinds, graph, answers in zip(*parts, strict=True)
    ]


class KindsGatedGraphConv(GatedGraphConv):
    """A `GatedGraphConv` with a linear layer for each kind of edges, shared by all steps."""

    def __init__(self, hidden_size: int, steps: int, kinds: int):
        super().__init__(hidden_size, steps)
        del self.weight
        self.kinds = kinds
        self.layers = nn.Linear(hidden_size, kinds * hidden_size)
        """The layers of all kinds, as one."""

    def forward(self, states: Tensor, edges: Tensor, kinds: Tensor) -> Tensor:
        """[nodes, hidden] The new states. states: [nodes, features]; edges: [2, edges]; kinds: [edges]."""
        states, nodes = F.pad(states, (0, self.out_channels - states.shape[1])), len(states)
        source, target = edges
        edges = torch.stack([source * self.kinds + kinds, target])
        for _ in range(self.num_layers):
            messages = self.layers(states).view(nodes * self.kinds, -1)  # for each node one of each kind
            sums = self.propagate(edges, x=messages, edge_weight=None, size=(nodes * self.kinds, nodes))
            states = self.rnn(sums, states)
        return states


class GraphNetwork(nn.Module):
    """A network with nodes as answers (softmax over a graph's nodes), or numbers if the readout is gated."""

    def __init__(self, problem: Problem, plain: bool):
        super().__init__()
        weights = {name: torch.from_numpy(array) for name, array in problem.weights().items()}
        steps, kinds = problem.number("steps"), problem.number("kind_count")
        hidden_size = weights["propagation.update.weight_hh"].shape[1]
        self.plain = plain
        self.convolution = (
            GatedGraphConv(hidden_size, steps) if plain else KindsGatedGraphConv(hidden_size, steps, kinds)
        )
        _fill(self.convolution.rnn, weights, "propagation.update")
        if not plain:
            for name, parameter in self.convolution.layers.named_parameters():
                of_kinds = [weights[f"propagation._edges.{kind}.{name}"] for kind in range(kinds)]
                parameter.data.copy_(torch.cat(of_kinds))
        self.score = _linear(weights, "readout.score")
        self.gate = _linear(weights, "readout.gate") if "readout.gate.weight" in weights else None

    def forward(self, batch: Batch) -> Tensor:
        """The sum of the graphs' losses."""
        kinds = () if self.plain else (batch.kinds,)
        states = self.convolution(batch.features, batch.edges, *kinds)
        both = torch.cat([states, batch.features], dim=1)  # [nodes, hidden + features]
        score = self.score(both)
        if self.gate:
            sums = global_add_pool(score * torch.sigmoid(self.gate(both)), batch.graph).squeeze(1)
            return (sums - batch.answers).square().sum()
        return -softmax(score, batch.graph)[batch.answers].log().sum()


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    outputs, inputs = weights[f"{name}.weight"].shape
    layer = nn.Linear(inputs, outputs)
    _fill(layer, weights, name)
    return layer


def _fill(module: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    module.load_state_dict({part: weights[f"{name}.{part}"] for part in module.state_dict()})


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--plain", action="store_true", help="without kinds of edges")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    problem = Problem(given.problem)
    network, batches = GraphNetwork(problem, given.plain), batches_of(problem)
    rate, momentum = float(problem.array("learning_rate")), float(problem.array("momentum"))
    optimizer = torch.optim.Adam(network.parameters(), rate, (momentum, 0.999), fused=True)

    def step(batch: Batch) -> None:
        loss = network(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # our program also reads the loss, to report it

    if not given.plain:
        problem.check(lambda: network(batches[0]).item(), lambda: step(batches[0]))
    print_speed(step, batches, lambda batch: len(batch.answers), given)


if __name__ == "__main__":
    main()
