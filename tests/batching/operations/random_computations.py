"""Random computations, written in a graph or computed directly by torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from chosen_device import DEVICE
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.batching.operations.elementary_operations import Module
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.writer import Value, Writer

WIDTH, ENTRIES = 4, 6


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(ENTRIES, WIDTH))
        self.sparse = nn.Parameter(torch.randn(ENTRIES, WIDTH))
        self.square = nn.Linear(WIDTH, WIDTH)
        self.joining = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.to(DEVICE, torch.double)


class Plain:
    """The words of `Writer`, computed on vectors immediately."""

    def lookup(self, table: Tensor, row: int, sparse: bool = False) -> Tensor:
        return table[row]

    def linear(self, weight: Tensor, *values: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.linear(torch.cat(values), weight, bias)

    add = staticmethod(torch.add)
    subtract = staticmethod(torch.sub)
    multiply = staticmethod(torch.mul)
    tanh = staticmethod(torch.tanh)
    sigmoid = staticmethod(torch.sigmoid)
    relu = staticmethod(torch.relu)

    def log_softmax(self, value: Tensor) -> Tensor:
        return F.log_softmax(value, 0)

    def inner_product(self, left: Tensor, right: Tensor) -> Tensor:
        return (left @ right)[None]

    def matrix_product(self, left: Tensor, right: Tensor, inner: int) -> Tensor:
        return (left.reshape(-1, inner) @ right.reshape(inner, -1)).flatten()

    def concatenate(self, values: list[Tensor]) -> Tensor:
        return torch.cat(values)

    def slice(self, value: Tensor, start: int, stop: int) -> Tensor:
        return value[start:stop]

    def sum(self, values: list[Tensor]) -> Tensor:
        return torch.stack(values).sum(0)

    def pick(self, value: Tensor, element: int) -> Tensor:
        return value[element : element + 1]

    def cross_entropy(self, scores: Tensor, label: int) -> Tensor:
        return F.cross_entropy(scores[None], torch.tensor([label], device=DEVICE))[None]

    def module(self, module: nn.Module, *values: Tensor) -> Tensor:
        return module(*(value[None] for value in values))[0]

    def say(self, word: str, parameters: Parameters, left: Tensor, right: Tensor, number: int) -> Tensor:
        return WORDS[word](self, parameters, left, right, number)


# Functions from values of one width to another one: (writer, parameters, left, right, number).
WORDS: dict[str, Callable] = {
    "lookup": lambda w, p, a, b, n: w.lookup(p.table, n),
    "sparse lookup": lambda w, p, a, b, n: w.lookup(p.sparse, n, sparse=True),
    "linear": lambda w, p, a, b, n: w.linear(p.square.weight, a, bias=p.square.bias),
    "joining": lambda w, p, a, b, n: w.linear(p.joining.weight, a, b),
    "add": lambda w, p, a, b, n: w.add(a, b),
    "subtract": lambda w, p, a, b, n: w.subtract(a, b),
    "multiply": lambda w, p, a, b, n: w.multiply(a, b),
    "operators": lambda w, p, a, b, n: w.tanh(p.square.weight @ a * b + a - b),
    "numbers": lambda w, p, a, b, n: (1 - w.sigmoid(a)) * b / 2 + 0.5 * -a - 0.25,
    "parts": lambda w, p, a, b, n: w.concatenate([a[:1], b[-2:], w.tanh(a[2:3])]),
    "inner product of parts": lambda w, p, a, b, n: w.concatenate([w.inner_product(a[:2], b[2:]), a[1:]]),
    "square product": lambda w, p, a, b, n: w.tanh(w.matrix_product(a, b, WIDTH // 2)),
    "outer product": lambda w, p, a, b, n: w.tanh(w.matrix_product(w.slice(a, 0, 2), w.slice(b, 1, 3), 1)),
    "inner product": lambda w, p, a, b, n: w.matrix_product(w.tanh(w.matrix_product(a, b, WIDTH)), b, 1),
    "tanh": lambda w, p, a, b, n: w.tanh(a),
    "sigmoid": lambda w, p, a, b, n: w.sigmoid(a),
    "relu": lambda w, p, a, b, n: w.relu(a),
    "log_softmax": lambda w, p, a, b, n: w.log_softmax(a),
    "sum": lambda w, p, a, b, n: w.sum([a, b, a]),
    "swap": lambda w, p, a, b, n: w.concatenate([w.slice(a, 1, WIDTH), w.slice(b, 0, 1)]),
    "module": lambda w, p, a, b, n: w.module(p.cell, a, b),
}
LOSSES: dict[str, Callable] = {
    "cross_entropy": lambda w, a, n: w.cross_entropy(a, n % WIDTH),
    "pick": lambda w, a, n: w.pick(a, n % WIDTH),
}


class Modules:
    """A writer with an additional word, `module`."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

    def module(self, module: nn.Module, *values: Value) -> Value:
        return self._writer.operate(Module(module, (WIDTH,)), values)[0]


class Recorded(Graph):
    def say(self, word: str, parameters: Parameters, left: Value, right: Value, number: int) -> Value:
        return WORDS[word](Modules(self), parameters, left, right, number)


def results(values: Tensor, parameters: nn.Module) -> list[Tensor]:
    """The values and the gradients of all parameters, zero for parameters that no value uses."""
    gradients = (
        torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in parameters.parameters()
    )
    return [values, *gradients]


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


Example = list[tuple[str, int, int, int]]
"""Words, each with the earlier values that it uses, and a number."""
EXAMPLES = st.lists(
    st.tuples(
        st.sampled_from(sorted(WORDS)), st.integers(0, 99), st.integers(0, 99), st.integers(0, ENTRIES - 1)
    ),
    max_size=12,
)


def write(writer, parameters: Parameters, example: Example, loss: str) -> object:
    values = [writer.lookup(parameters.table, 0)]
    for word, left, right, number in example:
        a, b = values[left % len(values)], values[right % len(values)]
        values.append(writer.say(word, parameters, a, b, number))
    return LOSSES[loss](writer, values[-1], 1)
