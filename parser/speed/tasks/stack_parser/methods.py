"""The methods that batch the StackLSTM parser: for gradients, and for trees.

Each is called with `Parts`. In training it returns `Gradients`, in inference `Trees`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor

from parser.batching.device import Packed
from parser.batching.ragged import Padding, group_size
from parser.models.network_model import NetworkModel
from parser.networks.loss import BatchLoss
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import BatchSource, Examples
from parser.networks.replay.making import Selection
from parser.networks.replay.shapes import EPOCHS, Shape, common_shapes
from parser.networks.stack_parser import EncodedSentences, StackParser
from parser.parsing.parsed_tree import Arcs
from parser.parsing.pytorch.running_batch import RunningBatch
from parser.speed.tasks.plugin import Setup, method, methods_of
from parser.speed.tasks.stack_parser.baselines import (
    parse_batch,
    parse_one,
    score_sentence,
    score_with_paper_decoder,
)
from parser.speed.tasks.stack_parser.stepper import score_by_stepping
from parser.training.graphed_gradients import GraphedGradients, PaddedBatch, why_no_common_shapes
from parser.training.training_step import TrainingStep
from parser.transitions.inventory import Inventory
from parser.transitions.state import State
from parser.treebank.batches import length_buckets
from parser.treebank.tokens import Tokens

TASK = "stack_parser"
METHODS = methods_of(TASK)
REPLAY_GRAPH = "replay-graph"
BY_PAPER = "step by step, as the paper's authors wrote it"
Score: TypeAlias = Callable[[StackParser, Inventory, Tensor, Batch], Tensor]
"""A function with the arguments and the result of `score_by_stepping`."""


@dataclass
class Parts:
    """What the methods of a cell need."""

    setup: Setup[Any]
    model: NetworkModel
    examples: Examples
    source: BatchSource
    step: TrainingStep

    def buckets(self, seed: int) -> list[Tensor]:
        """The batches of an epoch, [batch] each, of similar lengths."""
        generator = torch.Generator().manual_seed(seed)
        return length_buckets(self.examples.tokens.lengths, self.setup.batch_size, False, generator)

    def needed_rows(self, rows: Tensor) -> int:
        """The number of rows of the LSTMs whose results are used. rows: [batch]"""
        trajectories = self.examples.trajectories
        frames = self.examples.tokens, trajectories.steps, trajectories.stack_nodes
        return sum(int(each.lengths[rows].sum()) for each in frames) + len(rows)

    def padding(self, rows: Tensor, group: int | None, by_level: bool) -> float:
        """The share of the LSTMs' rows whose results are not used.

        group: the number of sentences over which LSTMs run at a time, None for the whole batch; by_level:
        whether the stack's LSTM runs over its nodes, and not over all steps.
        """
        tokens, trajectories = self.examples.tokens, self.examples.trajectories
        rows = rows[tokens.lengths[rows].argsort(descending=True)]
        of_buffer = Padding.of(tokens.lengths[rows] + 1, group).rows
        of_history = Padding.of(trajectories.steps.lengths[rows], group).rows
        of_stack = int(trajectories.stack_nodes.lengths[rows].sum()) if by_level else of_history
        return 1 - self.needed_rows(rows) / (of_stack + of_buffer + of_history)


def needs_gpu(setup: Setup[Any]) -> str | None:
    return None if setup.device.type == "cuda" else "CUDA graphs need a GPU"


def needs_common_shapes(setup: Setup[Any]) -> str | None:
    return needs_gpu(setup) or why_no_common_shapes(setup.settings.parser.network)


def needs_simple_network(setup: Setup[Any]) -> str | None:
    network = setup.settings.parser.network
    if network.composition or network.word_features:
        return f"{setup.method} has neither composition nor word features"
    return None


class MicrobatchGradients:
    """The gradients of a microbatch for all sentences or, without batching, of one for each."""

    def __init__(self, score: Score | None, parts: Parts, one_by_one: bool = False):
        """score: computes the scores of a microbatch, if not by replay."""
        self._parts, self._score, self._one_by_one = parts, score, one_by_one
        self._group = group_size(parts.setup.device) if score is None else None

    def gradients(self, *batches: Tensor) -> Tensor:
        """Compute the gradients of the mean loss per transition; return the sum of the losses.

        batches: [batch] each, the numbers of the sentences.
        """
        step = replace(self._parts.step, forward=None if self._score is None else self._forward)
        loss, _ = step.gradients(part for rows in batches for part in self._microbatches(rows))
        return loss

    def checked(self, *batches: Tensor) -> Tensor:
        """Like `gradients`, for a check."""
        return self.gradients(*batches)

    def padding(self, rows: Tensor) -> float:
        """See `Work`. rows: [batch]"""
        return 0.0 if self._one_by_one else self._parts.padding(rows, self._group, self._score is None)

    def _microbatches(self, rows: Tensor) -> Iterator[Batch]:
        setup, source = self._parts.setup, self._parts.source
        for together in rows.split(1 if self._one_by_one else len(rows)):
            with setup.phase("scheduling"):  # indices and levels of the oracle's trajectories
                prepared: Packed[Selection] | Packed[Batch] | Batch
                if setup.device.type == "cuda":
                    prepared = source.prepared(together, source.shape(together))
                else:
                    prepared = self._parts.examples.batch(together, self._group)
            with setup.phase("data"):
                batch = source.made(prepared.to(setup.device))
            yield batch

    def _forward(self, batch: Batch, inventory: Inventory) -> BatchLoss:
        """Like `StackParser.forward`, with the method's scores."""
        assert self._score is not None
        network = self._parts.model.network
        words = network.encode(batch.tokens)
        scores = self._score(network, inventory, words.table, batch)  # [S, transitions]
        return network.loss(scores, words, batch, inventory)


@method(TASK, "none")
def sentence_by_sentence(parts: Parts) -> MicrobatchGradients:
    """The stack is a Python list; with composition or word features, a sentence is a batch of one."""
    score = score_sentence if parts.model.network.is_of_ding_and_koehn else score_by_stepping
    return MicrobatchGradients(score, parts, one_by_one=True)


by_stepping, by_replay = partial(MicrobatchGradients, score_by_stepping), partial(MicrobatchGradients, None)
by_paper = partial(MicrobatchGradients, score_with_paper_decoder)
method(TASK, "step-naive", skip=needs_simple_network, title=BY_PAPER)(by_paper)
method(TASK, "step", title="step by step")(by_stepping)
method(TASK, "replay", title="replay, level by level")(by_replay)


@method(TASK, REPLAY_GRAPH, skip=needs_common_shapes, title="replay in CUDA graphs, one for each shape")
class GraphedReplay:
    """Replay in CUDA graphs, captured for the shapes of epochs other than the measured ones."""

    def __init__(self, parts: Parts):
        """Raises RuntimeError if a graph cannot be captured."""
        self._parts, self._source, self._step = parts, parts.source, parts.step
        others = (parts.buckets(parts.setup.seed + 1 + epoch) for epoch in range(EPOCHS))
        shapes = common_shapes(map(self._source.shape, chain.from_iterable(others)))
        self._graphs = GraphedGradients(self._step, self._source, shapes)
        measured = map(self._padded, parts.buckets(parts.setup.seed))
        for padded in {each.shape: each for each in measured if each}.values():
            for _ in range(2):
                self._graphs.gradients(padded)
        self._step.network.zero_grad()
        if self._graphs.cuda_graphs.failed:
            raise RuntimeError("a CUDA graph could not be captured")

    def shape_for(self, shape: Shape) -> Shape | None:
        """See `GraphedGradients.shape_for`."""
        return self._graphs.shape_for(shape)

    def _padded(self, rows: Tensor) -> PaddedBatch | None:
        return self._graphs.padded(rows, self._source.shape(rows))

    def gradients(self, *batches: Tensor) -> Tensor:
        rows, phase = torch.cat(batches), self._parts.setup.phase
        with phase("scheduling"):
            padded = self._padded(rows)
        if padded is None:
            loss, _ = self._step.gradients([self._source.batch(rows)])
            return loss
        with phase("forward"):  # and backward: the graph contains both
            loss, _ = self._graphs.gradients(padded)
        return loss

    def checked(self, *batches: Tensor) -> Tensor:
        """With much padding, by a separate graph that is captured and replayed."""
        rows = torch.cat(batches)
        graphs = GraphedGradients(self._step, self._source)
        shape = self._source.shape(rows)
        padded = PaddedBatch.of(self._source, rows, shape, Shape.around([shape, *self._graphs.shapes[-1:]]))
        for _ in range(3):
            loss, _ = graphs.gradients(padded)
        return loss

    def padding(self, rows: Tensor) -> float:
        shape = self._source.shape(rows[self._parts.examples.tokens.lengths[rows].argsort(descending=True)])
        return 1 - self._parts.needed_rows(rows) / (self.shape_for(shape) or shape).lstm_rows


Gradients: TypeAlias = MicrobatchGradients | GraphedReplay


class StaticTrees:
    """The trees of static batches, or of one sentence after the other."""

    continuous = False
    """Whether a batch has more sentences than are parsed together, of any lengths, the longest first."""

    def __init__(self, parse: Callable[[NetworkModel, Tokens], State], one_by_one: bool, parts: Parts):
        self._parts, self._parse, self._one_by_one = parts, parse, one_by_one

    def parse(self, rows: Tensor) -> Tensor:
        """[2, words] Heads and labels of some sentences. rows: [sentences]"""
        parts, phase = self._parts, self._parts.setup.phase
        trees = []
        for together in rows.split(1 if self._one_by_one else len(rows)):
            with phase("data"):
                tokens = parts.examples.tokens.select(together)
            with phase("forward"):
                state = self._parse(parts.model, tokens.to(parts.setup.device))
            with phase("data"):
                trees.append(torch.stack([state.heads[:-1], state.labels[:-1]]).cpu())
        return torch.cat(trees, dim=1)

    def padding(self, rows: Tensor) -> float:
        return 0.0 if self._one_by_one else self._parts.padding(rows, None, by_level=False)


class ContinuousTrees:
    """The trees that the engine's running batch makes."""

    continuous = True

    def __init__(self, in_graph: bool, parts: Parts):
        self._parts = parts
        with torch.inference_mode():
            self._batch = RunningBatch([parts.model], parts.setup.batch_size, in_graph)

    def parse(self, rows: Tensor) -> Tensor:
        parts, phase = self._parts, self._parts.setup.phase
        with phase("data"):
            tokens = parts.examples.tokens.select(rows)
        with phase("forward"):
            arcs = parse_tokens(self._batch, parts.model, tokens)
            return torch.cat([torch.tensor([tree.heads, tree.labels]) for tree in arcs], dim=1)

    def padding(self, rows: Tensor) -> None:
        return None


Trees: TypeAlias = StaticTrees | ContinuousTrees
parsing = partial(method, TASK, modes=["infer"])
parsing("none")(partial(StaticTrees, parse_one, True))
parsing("step-naive", skip=needs_simple_network, title=BY_PAPER)(partial(StaticTrees, parse_batch, False))
parsing("step", title="step by step")(partial(ContinuousTrees, False))
parsing("step-graph", skip=needs_gpu, title="step by step, in CUDA graphs")(partial(ContinuousTrees, True))


def parse_tokens(
    batch: RunningBatch, model: NetworkModel, tokens: Tokens, probabilities: bool = False
) -> list[Arcs]:
    """Parse sentences in a batch of this model without other sentences."""
    slots = batch.join([EncodedSentences(tokens, model.network.encode_distinct(tokens)[0])], probabilities)
    trees: dict[int, Arcs] = {}
    while len(trees) < len(slots):
        batch.work()
        trees |= batch.done()
    return [trees[slot] for slot in slots]
