"""Measure when scheduling by depth is faster than by agenda: numbers of batches, and times of training steps.

Networks over 64 trees or sequences are trained on one thread, from recording to gradients. In trees, a node
has one to five children, and there is a template for each number of children. Templates consist of single
operations, or are cells.

python scripts/studies/batching/measure_schedules.py
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns, processor_seconds

from parser.batching.operations.cells import Grain, slices, trace_template, write_forget, write_states
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.template import Template
from parser.batching.operations.writer import Value, Values, Writer
from parser.evaluation.statistics import ratio_of
from parser.system.provenance import machine

SIZES = (32, 256)
EXAMPLES, CHILDREN, WORDS = 64, 5, 20
TURNS, REPETITIONS = 15, 2
Tree = tuple["Tree", ...]
"""The children of a node; none for a word."""


def tree(draw: random.Random, words: int) -> Tree:
    """A random tree over this number of words."""
    if words == 1:
        return ()
    children = min(draw.randint(1, CHILDREN), words)
    bounds = [0, *sorted(draw.sample(range(1, words), children - 1)), words]
    if children == 1:
        bounds[1] -= 1
    return tuple(tree(draw, stop - start) for start, stop in pairwise(bounds))


def chain(words: int) -> Tree:
    """A sequence: each node has the words before it as its only child."""
    node: Tree = ()
    for _ in range(1, words):
        node = (node,)
    return node


def examples() -> dict[str, list[Tree]]:
    draw = random.Random(1)
    return {
        "trees": [tree(draw, draw.randint(2, WORDS)) for _ in range(EXAMPLES)],
        "sequences of 1 to 20": [chain(draw.randint(1, WORDS)) for _ in range(EXAMPLES)],
        "sequences of 20": [chain(WORDS)] * EXAMPLES,
    }


class Network:
    """A Tree-LSTM whose weights differ by the number of children."""

    def __init__(self, size: int, grain: Grain):
        torch.manual_seed(1)
        self._word = torch.randn(1, size, requires_grad=True)
        weights = [torch.randn(4 * size, size * count) / size for count in range(1, CHILDREN + 1)]
        self.parameters = [self._word, *(weight.requires_grad_() for weight in weights)]
        self._leaf = Template.trace(self._write_word, (), 1)
        self._nodes = [
            trace_template(grain, partial(self._write_node, weight), (size,) * (2 * count))
            for count, weight in enumerate(weights, 1)
        ]

    def _write_word(self, writer: Writer, row: int) -> tuple[Value, Value]:
        vector = writer.lookup(self._word, row)
        return vector, writer.tanh(vector)

    def _write_node(self, weight: Tensor, writer: Writer, *states: Value) -> tuple[Value, Value]:
        hidden, cells = states[::2], states[1::2]
        gates = writer.linear(weight, *hidden)
        input_gate, forget_gate, cell_gate, output_gate = slices(writer, gates, writer.width(cells[0]))
        forgotten = [write_forget(writer, forget_gate, cell) for cell in cells]
        return write_states(writer, input_gate, cell_gate, output_gate, *forgotten)

    def record(self, graph: Graph, trees: Sequence[Tree]) -> Values:
        """Returns the hidden states of all roots."""
        return Values(graph, [self._state(graph, tree)[0].number for tree in trees])

    def _state(self, graph: Graph, tree: Tree) -> Sequence[Value]:
        if not tree:
            return graph.apply(self._leaf, (), (0,))
        states = [value for child in tree for value in self._state(graph, child)]
        return graph.apply(self._nodes[len(tree) - 1], states)


def step(network: Network, trees: Sequence[Tree], method: str) -> None:
    graph = Graph(method, "cpu")
    roots = network.record(graph, trees)
    graph.values(roots).sum().backward()
    for parameter in network.parameters:
        parameter.grad = None


def batches(network: Network, trees: Sequence[Tree], method: str) -> int:
    graph = Graph(method, "cpu")
    network.record(graph, trees)
    return len(graph.schedule())


def main() -> None:
    torch.set_num_threads(1)
    print(machine()["cpu"])
    for grain in ("cell", "operation"):
        for name, trees in examples().items():
            counts = [batches(Network(2, grain), trees, method) for method in ("agenda", "depth")]
            shares = [_speed_of_depth(Network(size, grain), trees) for size in SIZES]
            print(f"{grain}; {name}; {counts[0]}; {counts[1]}; {'; '.join(shares)}", flush=True)


def _speed_of_depth(network: Network, trees: Sequence[Tree]) -> str:
    """The speed by depth, as a share of the speed by agenda, with a 95 % interval."""
    work: dict[str, Callable[[], float]] = {
        method: partial(processor_seconds, partial(step, network, trees, method), REPETITIONS)
        for method in ("agenda", "depth")
    }
    turns = list(in_turns(work, TURNS))
    agenda, depth = ([turn[method] for turn in turns] for method in work)
    return str(ratio_of(agenda, depth, interleaved=True))


if __name__ == "__main__":
    main()
