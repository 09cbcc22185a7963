"""Gated graph networks on bAbI's deductions and on molecules, by asynchronous messages (Gaunt et al. 2017).

`none` trains batch by batch with sparse propagation, `dense` with dense propagation. `active-n` has n batches
in flight in a graph of messages, one for all nodes and edges; `dense-active-n` likewise with dense
propagation, and `edges-active-n` with a message for each node and each edge, as in the paper's figure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator

from parser.config.data_folder import data_path
from parser.speed.tasks.graphs.babi import make_deductions, read_graph_questions, with_more_nodes
from parser.speed.tasks.graphs.messages import EdgeMessages, GraphMessages
from parser.speed.tasks.graphs.network import (
    GraphBatch,
    GraphNetwork,
    LabelledGraph,
    batch_of,
    regression_errors,
)
from parser.speed.tasks.graphs.qm9 import ORDERS, make_molecules, read_molecules
from parser.speed.tasks.message_training import (
    ACTIVE,
    MESSAGE_TITLES,
    NEEDS_CPU,
    BatchMessagePlugin,
    LoopMessageSettings,
    MessageTraining,
    refuse_nothing_held_out,
)
from parser.speed.tasks.operation_training import in_batches, missing_file
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, method, methods_of
from parser.system.settings import contradiction_error

CHEMICAL_ACCURACIES = "error, times chemical accuracy"
"""The name of a note."""
DEDUCTION = 15
"""The number of the task in bAbI."""
EDGE_KINDS = {"deductions": 2, "molecules": len(ORDERS)}
"""The number of kinds of edges, by task."""


class GraphNetworkSettings(LoopMessageSettings):
    task: Literal["deductions", "molecules"] = "deductions"
    data: str | None = None
    """Folder of bAbI, or file of molecules; ${PARSER_DATA} stands for the data folder. null: generated
    examples, see `made`."""
    held_out: str | None = None
    """Held-out examples, in the format of `data`."""
    examples: int | None = Field(None, gt=0)
    """Number of examples to train on, from the first on. null: all examples."""
    made: int = Field(64, gt=0)
    """Number of generated questions or molecules."""
    nodes: int | None = Field(54, gt=0)
    """Number of nodes to which each graph of deductions is padded, with isolated nodes. null: no padding."""
    chemical_accuracy: float | None = Field(None, gt=0)
    """Chemical accuracy of the property of molecules, in its standard deviations. If it is set, the mean
    absolute error on `held_out` is reported as a multiple of it."""
    hidden_size: int = Field(5, gt=0)
    steps: int = Field(2, gt=0)
    learning_rate: float = Field(1e-2, gt=0)

    @model_validator(mode="after")
    def _of_molecules(self) -> GraphNetworkSettings:
        if self.chemical_accuracy and self.task != "molecules":
            raise contradiction_error([("chemical_accuracy", "is of molecules only")])
        return self


GraphExample = tuple[LabelledGraph, int | float]
"""A graph, and its answer."""


TASK = "graph_network"
METHODS = methods_of(TASK)
DIFFERENT_SIZES = "molecules have different sizes: dense propagation would be mostly padding"


def training(
    model_of: Callable[[GraphNetwork], GraphMessages | EdgeMessages],
    active: int | None,
    setup: Setup[GraphNetworkSettings],
    network: GraphNetwork,
) -> MessageTraining:
    """model_of: how the network is computed; active: the number of batches in flight, None: no messages."""
    return MessageTraining(setup, network, model_of(network), setup.settings.updates, active)


def refuse_molecules(setup: Setup[GraphNetworkSettings]) -> str | None:
    return DIFFERENT_SIZES if setup.settings.task == "molecules" else None


sparsely, densely = partial(GraphMessages, dense=False), partial(GraphMessages, dense=True)
dense_method = partial(method, TASK, skip=refuse_molecules)
method(TASK, "none")(partial(training, sparsely, None))
for name, number in ACTIVE.items():
    method(TASK, name)(partial(training, sparsely, number))
dense_method("dense", title="batch by batch, dense matrices")(partial(training, densely, None))
for name, number in ACTIVE.items():
    dense_method(f"dense-{name}", title=f"{MESSAGE_TITLES[name]}, dense matrices")(
        partial(training, densely, number)
    )
for name, number in ACTIVE.items():
    method(TASK, f"edges-{name}", title=f"{MESSAGE_TITLES[name]}, one for each edge")(
        partial(training, EdgeMessages, number)
    )


class GraphNetworkPlugin(BatchMessagePlugin):
    name = "graph_network"
    paper = "Gaunt et al. 2017, Table 1 (bAbI 15, QM9)"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = MESSAGE_TITLES
    example_name: ClassVar[str] = "examples"
    Settings = GraphNetworkSettings

    def skip(self, setup: Setup[GraphNetworkSettings]) -> str | None:
        settings = setup.settings
        if setup.device.type != "cpu":
            return NEEDS_CPU
        if reason := METHODS.chosen(setup).skip(setup):
            return reason
        if settings.task == "molecules":
            return missing_file(settings.data, settings.held_out)
        folders = (data_path(name) for name in (settings.data, settings.held_out) if name)
        return next((f"no folder {folder}" for folder in folders if not Path(folder).is_dir()), None)

    def prepare(self, setup: Setup[GraphNetworkSettings]) -> None:
        self.setup = setup
        settings = setup.settings
        self._examples = load_examples(settings, settings.data, setup.seed)[: settings.examples]
        has_others = settings.held_out or not settings.data  # generated examples say nothing about real data
        self._held_out = load_examples(settings, settings.held_out, setup.seed + 1) if has_others else []
        self._kinds = EDGE_KINDS[settings.task]
        torch.manual_seed(setup.seed)
        features = self._examples[0][0].features.shape[1]
        selects = settings.task == "deductions"
        self._network = GraphNetwork(features, self._kinds, settings.hidden_size, settings.steps, selects)
        self.messages = METHODS.chosen(setup).make(setup, self._network)

    def training_batches(self, seed: int) -> list[GraphBatch]:
        return self._cut(random.Random(seed).sample(self._examples, len(self._examples)))

    def held_out_batches(self) -> list[GraphBatch]:
        return self._cut(self._held_out)

    def checked_batches(self) -> list[GraphBatch]:
        return self._cut(self._examples[: self.setup.checked])

    def score(self) -> float:
        """The accuracy on questions; for molecules 1 minus the mean squared error.

        For targets with a variance of 1, this is the explained variance.
        """
        if self.setup.settings.task == "deductions":
            return super().score()
        refuse_nothing_held_out(len(self._held_out))
        reports = self.messages.run(self.held_out_batches(), training=False).reports
        return 1 - sum(report.loss for report in reports) / sum(report.examples for report in reports)

    def notes(self) -> dict[str, float]:
        """Also the mean absolute error on held-out examples, as a multiple of chemical accuracy."""
        accuracy = self.setup.settings.chemical_accuracy
        if accuracy is None or not self._held_out:
            return super().notes()
        with torch.no_grad():
            errors = torch.cat(
                [
                    regression_errors(self._network.scores(batch), batch.graph, batch.answers)
                    for batch in self.held_out_batches()
                ]
            )  # [graphs]
        return super().notes() | {CHEMICAL_ACCURACIES: errors.abs().mean().item() / accuracy}

    def work(self, batch: Sequence[GraphBatch]) -> Work:
        """The work with sparse propagation."""
        network = self._network
        hidden, steps = network.hidden_size, network.steps
        nodes = sum(len(each.graph) for each in batch)
        edges = sum(len(each.targets) for each in batch)
        readout = network.readout
        read = readout.score.in_features * (2 if readout.gate else 1)
        along_edges, changes = edges * hidden**2, 3 * nodes * hidden**2
        forward = steps * (along_edges + 2 * changes) + nodes * read
        # The backward pass needs two products for each forward product; the initial states need no gradient.
        operations = 2.0 * (3 * forward - along_edges - changes)
        return Work(sum(len(each.answers) for each in batch), nodes, operations, batches=len(batch))

    def _cut(self, examples: Sequence[GraphExample]) -> list[GraphBatch]:
        return [
            batch_of([graph for graph, _ in part], [answer for _, answer in part], self._kinds)
            for part in in_batches(examples, self.setup.batch_size)
        ]


def load_examples(settings: GraphNetworkSettings, data: str | None, seed: int) -> list[GraphExample]:
    """Read or generate examples. Raises ValueError for broken files and for too large graphs."""
    path = Path(data_path(data)) if data else None
    if settings.task == "molecules":
        molecules = read_molecules(path) if path else make_molecules(settings.made, seed)
        return [(molecule.graph, molecule.target) for molecule in molecules]
    questions = read_graph_questions(path, DEDUCTION) if path else make_deductions(settings.made, seed)
    if settings.nodes:
        questions = [with_more_nodes(question, settings.nodes) for question in questions]
    return [(question.graph, question.answer) for question in questions]


PLUGIN: type[Plugin[GraphNetworkSettings]] = GraphNetworkPlugin
