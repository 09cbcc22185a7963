"""Training steps of networks that run in a graph, as a static structure, or by autograd; their batches, their
optimizers, and embedding tables with sparse gradients.
"""

from __future__ import annotations

import os
import random
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, SparseAdam

from parser.batching.levels import Integers
from parser.batching.operations.computation import Computation
from parser.batching.operations.layout import Step
from parser.batching.operations.operation_graph import Graph
from parser.batching.operations.static_computation import StaticApplications, StaticComputation
from parser.batching.operations.writer import Values
from parser.config.data_folder import data_path
from parser.speed.tasks.plugin import AnySetup, fingerprints, gradients_of
from parser.treebank.embeddings import read_vectors

OPERATION_TITLES = {
    "depth": "batched on the fly, by depth",
    "agenda": "batched on the fly, by agenda",
    "manual": "batched by hand",
    "library": "packed sequences, PyTorch's LSTM",
    "padded": "padded, PyTorch's LSTM",
    "compiled": "by hand, the cell by torch.compile",
    "nested": "nested tensors",
    "vmap": "padded, by torch.func.vmap",
}


def missing_file(*names: str | None) -> str | None:
    """Return why a plugin that reads these files cannot be measured, or None if they exist.

    names: as in settings, where ${PARSER_DATA} stands for the data folder; None for no file.
    """
    paths = (data_path(name) for name in names if name)
    return next((f"no file {path}" for path in paths if not Path(path).is_file()), None)


def missing_compiler() -> str | None:
    """Return why nothing can be compiled here, or None."""
    compiler = os.environ.get("CXX", "g++")
    header = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which(compiler) is None:
        return f"torch.compile needs a C++ compiler, and there is no {compiler}: install it, or set CXX"
    if not header.is_file():
        return f"torch.compile needs the headers of Python, and there is no {header}: install python3-dev"
    return None


def in_batches(examples: Sequence[Any], size: int) -> list[list[Any]]:
    """Split the examples into batches of the given size; the last one may be smaller."""
    return [list(examples[start : start + size]) for start in range(0, len(examples), size)]


def shuffled(examples: Sequence[Any], seed: int) -> list[Any]:
    """The examples in random order, which depends only on the seed."""
    mixed = list(examples)
    random.Random(seed).shuffle(mixed)
    return mixed


def epoch_of_sentences(sentences: Sequence[Any], setup: AnySetup, similar_lengths: bool) -> list[list[Any]]:
    """The batches of an epoch, of random sentences or of sentences of similar lengths."""
    order = shuffled(sentences, setup.seed)
    if similar_lengths:
        order.sort(key=lambda sentence: -len(sentence.words))
    return sentence_batches(order, setup.batch_size)


def sentence_batches(sentences: Sequence[Any], size: int) -> list[list[Any]]:
    """Batches of sentences, sorted by decreasing length, so that sentences still running come first."""
    return [sorted(batch, key=lambda sentence: -len(sentence.words)) for batch in in_batches(sentences, size)]


class Forward(NamedTuple):
    """A loss, and a function that adds its gradients to those of the parameters."""

    loss: Tensor
    backward: Callable[[], object]


class OperationTraining:
    """Steps of Adam on the sum of a batch's losses."""

    def __init__(self, setup: AnySetup, network: nn.Module, forward: Callable[[Any], Forward], rate: float):
        """forward: the forward pass of a batch, which also reports its phases."""
        self._setup, self._network, self._forward = setup, network, forward
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        self._optimizers = optimizers(network, rate)

    def step(self, batch: Any) -> None:
        phase = self._setup.phase
        _, backward = self._forward(batch)
        with phase("backward"):
            self._clear_gradients()
            backward()
        with phase("update"):
            for optimizer in self._optimizers:
                optimizer.step()

    def change_rate(self, rate: float) -> None:
        """Set the learning rate, from the next step on."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def loss_and_gradients(self, batches: Sequence[Any]) -> Tensor:
        """[1 + 2 * weights] The loss of some batches, and the fingerprints of its gradients."""
        self._clear_gradients()
        losses = []
        for batch in batches:
            loss, backward = self._forward(batch)
            backward()
            losses.append(loss.detach())
        results = torch.cat(
            [torch.stack(losses).sum().cpu()[None], fingerprints(gradients_of(self._weights))]
        )
        self._clear_gradients()
        return results

    def _clear_gradients(self) -> None:
        for weight in self._weights:
            weight.grad = None


class GraphForward:
    """A forward pass that is recorded in a graph."""

    def __init__(self, setup: AnySetup, record: Callable[[Graph, Any], Values], method: str):
        """record: records a batch, and returns its losses; method: the batching method of the graph."""
        self._setup, self._record, self._method = setup, record, method

    @classmethod
    def by_example(cls, setup: AnySetup, record: Callable[[Graph, Any], Values]) -> GraphForward:
        """Record example by example, with the batching method of the setup. record: records one example."""

        def record_all(graph: Graph, batch: Any) -> Values:
            return Values(graph, [number for example in batch for number in record(graph, example).numbers])

        return cls(setup, record_all, setup.method)

    def __call__(self, batch: Any) -> Forward:
        setup = self._setup
        with setup.phase("graph"):
            graph = Graph(self._method, setup.device)
            losses = self._record(graph, batch)
        with setup.phase("scheduling"):
            steps = graph.schedule()
        return _run(setup, graph, steps, np.array(losses.numbers))


class StaticForward:
    """The forward pass of a static structure."""

    def __init__(self, setup: AnySetup, calls: Callable[[Any], tuple[list[StaticApplications], Integers]]):
        """calls: returns the calls of a batch, and the numbers of its losses."""
        self._setup, self._calls = setup, calls

    def __call__(self, batch: Any) -> Forward:
        setup = self._setup
        with setup.phase("scheduling"):
            computation = StaticComputation(setup.device)
            calls, losses = self._calls(batch)
            steps = computation.schedule(calls)
        return _run(setup, computation, steps, losses)


def _run(setup: AnySetup, computation: Computation, steps: list[Step], losses: Integers) -> Forward:
    """Run the forward pass of a computation. losses: [losses], the numbers of the losses."""
    with setup.phase("forward"), torch.no_grad():
        computation.run(steps)
        loss = computation.rows(losses, 1).sum()
    return Forward(loss, lambda: computation.backward(losses))


class AutogradForward:
    """A forward pass that is batched by hand and differentiated by autograd."""

    def __init__(self, setup: AnySetup, loss: Callable[[Any], Tensor]):
        self._setup, self._loss = setup, loss

    def __call__(self, batch: Any) -> Forward:
        with self._setup.phase("forward"):
            loss = self._loss(batch)
        return Forward(loss, loss.backward)


def sparse_table(entries: int, width: int) -> nn.Embedding:
    """An embedding whose gradient contains only rows that were looked up, so that updates skip the rest."""
    table = nn.Embedding(entries, width, sparse=True)
    nn.init.normal_(table.weight, std=0.1)
    return table


@torch.no_grad()
def copy_vectors(table: nn.Embedding, words: Mapping[str, int], path: str) -> int:
    """Start a table with the vectors of a file. A word without a vector gets that of its lowercase form.

    words: the row of each word. Returns the number of words that were found. Raises ValueError if the vectors
    and the table differ in size, and for a broken file.
    """
    known, vectors = read_vectors(path)
    if vectors.shape[1] != table.embedding_dim:
        raise ValueError(
            f"embeddings: the vectors of {path} have {vectors.shape[1]} numbers, and those of the table "
            f"{table.embedding_dim}: set word_size to {vectors.shape[1]}"
        )
    number_of = {word: number for number, word in enumerate(known)}
    numbers_of_rows = {row: number_of.get(word, number_of.get(word.lower())) for word, row in words.items()}
    pairs = [(row, number) for row, number in numbers_of_rows.items() if number is not None]
    if pairs:
        rows, numbers = torch.tensor(pairs).unbind(1)
        table.weight[rows.to(table.weight.device)] = vectors[numbers].to(table.weight.device)
    return len(pairs)


def table_optimizer(weights: Iterable[Tensor], rate: float) -> Optimizer:
    """Adam that updates only the rows that were looked up."""
    return SparseAdam(list(weights), lr=rate)


def optimizers(network: nn.Module, rate: float) -> list[Optimizer]:
    """Adam for dense parameters, and SparseAdam for sparse tables if there are any."""
    tables = [part.weight for part in network.modules() if isinstance(part, nn.Embedding) and part.sparse]
    sparse = set(tables)
    others = [weight for weight in network.parameters() if weight.requires_grad and weight not in sparse]
    dense: list[Optimizer] = [Adam(others, lr=rate, fused=True)]
    return [*dense, table_optimizer(tables, rate)] if tables else dense
