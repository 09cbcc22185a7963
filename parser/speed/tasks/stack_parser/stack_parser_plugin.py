"""The StackLSTM parser (Ding & Koehn 2019): sentence by sentence, step by step, and by replay.

`step-naive` is the paper's algorithm with PyTorch's LSTM cells, as its authors implemented it. `step` is our
implementation of the same algorithm. `none` parses each sentence separately with its stack in a Python list,
or, with composition or word features, steps through it as a batch of one. Inference is measured with a
network that was trained a little, so that its stacks are as deep as in use. Operations are those of gold
trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from parser.batching import PRECISIONS
from parser.batching.device import Packed
from parser.batching.ragged import Padding, Ragged, group_size
from parser.config.data_folder import data_path
from parser.models.model import Model
from parser.models.settings import ParserSettings
from parser.networks.loss import BatchLoss
from parser.networks.replay.batch import Batch
from parser.networks.replay.examples import BatchSource, Examples
from parser.networks.replay.making import Selection
from parser.networks.replay.shapes import EPOCHS, Shape, common_shapes
from parser.networks.stack_parser import EncodedSentences, StackParser
from parser.parsing.parsed_tree import Arcs
from parser.parsing.running_batch import RunningBatch
from parser.speed.tasks.plugin import NO_BATCHING, Methods, Plugin, Setup, Work, fingerprints, gradients_of
from parser.speed.tasks.stack_parser.greedy_parsing import parse_batch, parse_one
from parser.speed.tasks.stack_parser.paper_decoder import score_with_paper_decoder
from parser.speed.tasks.stack_parser.stepper import score_by_stepping
from parser.speed.tasks.stack_parser.unbatched import score_sentence
from parser.system.settings import Settings
from parser.training.graphed_gradients import GraphedGradients, PaddedBatch, why_no_common_shapes
from parser.training.optimizer import OptimizerSettings, make_optimizer
from parser.training.training_step import Phase, TrainingStep
from parser.transitions.inventory import Inventory
from parser.treebank.batches import length_buckets
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.vocabulary import Tokens, Vocabulary

TRAINED_BATCH = 32
"""Sentences per batch when the network is trained before inference is measured."""
STEP_GRAPH, REPLAY_GRAPH = "step-graph", "replay-graph"
SENTENCES_PER_ROW = 4
"""With continuous batching, the number of sentences per row of the batch that are parsed in one run."""


class GraphedSteps:
    def __init__(self, source: BatchSource, step: TrainingStep, epochs: Iterable[list[Tensor]], phase: Phase):
        """epochs: the batches that determine the shapes, from epochs other than the measured ones."""
        self._source, self._step, self._phase = source, step, phase
        shapes = common_shapes(map(source.shape, chain.from_iterable(epochs)))
        self._graphs = GraphedGradients(step, source, shapes)

    def capture(self, batches: Sequence[Tensor]) -> None:
        """Capture a graph for each shape of the batches. Raises RuntimeError if one cannot be captured."""
        for padded in {each.shape: each for each in map(self._padded, batches) if each}.values():
            for _ in range(2):
                self._graphs.gradients(padded)
        self._step.network.zero_grad()
        if self._graphs.cuda_graphs.failed:
            raise RuntimeError("a CUDA graph could not be captured")

    def shape_for(self, own: Shape) -> Shape | None:
        """See `GraphedGradients.shape_for`."""
        return self._graphs.shape_for(own)

    def _padded(self, rows: Tensor) -> PaddedBatch | None:
        return self._graphs.padded(rows, self._source.shape(rows))

    def gradients(self, rows: Tensor) -> Tensor:
        """Like `TrainingStep.gradients`, but returns only the loss."""
        with self._phase("scheduling"):
            padded = self._padded(rows)
        if padded is None:
            loss, _ = self._step.gradients([self._source.batch(rows)])
            return loss
        with self._phase("forward"):  # and backward: the graph contains both
            loss, _ = self._graphs.gradients(padded)
        return loss

    def checked(self, rows: Tensor) -> Tensor:
        """Like `gradients`, but with much padding, by a separate graph that is captured and replayed."""
        graphs = GraphedGradients(self._step, self._source)
        own = self._source.shape(rows)
        padded = PaddedBatch.of(self._source, rows, own, Shape.around([own, *self._graphs.shapes[-1:]]))
        for _ in range(3):
            loss, _ = graphs.gradients(padded)
        return loss


class StackParserSettings(Settings):
    treebank: str = "data/quickstart/train.conllu"
    """Treebank whose projective trees are trained on and parsed. ${PARSER_DATA} stands for the data
    folder."""
    parser: ParserSettings = ParserSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    learning_rate: float = Field(1e-3, gt=0)
    max_grad_norm: float = Field(5.0, gt=0, allow_inf_nan=True)
    trained_batches: int = Field(50, ge=0)
    """Number of batches on which the network is trained before inference is measured."""


class StackParserPlugin:
    name = "stack_parser"
    paper = "Ding & Koehn 2019, Figure 1"
    methods: ClassVar[Methods] = {
        "train": (NO_BATCHING, "step-naive", "step", "replay", REPLAY_GRAPH),
        "infer": (NO_BATCHING, "step-naive", "step", STEP_GRAPH),
    }
    method_titles: ClassVar[dict[str, str]] = {
        "step-naive": "step by step, as the paper's authors wrote it",
        "step": "step by step",
        STEP_GRAPH: "step by step, in CUDA graphs",
        "replay": "replay, level by level",
        REPLAY_GRAPH: "replay in CUDA graphs, one for each shape",
    }
    precisions = PRECISIONS
    Settings = StackParserSettings

    def skip(self, setup: Setup[StackParserSettings]) -> str | None:
        path, network = data_path(setup.settings.treebank), setup.settings.parser.network
        if setup.method in (STEP_GRAPH, REPLAY_GRAPH) and setup.device.type != "cuda":
            return "CUDA graphs need a GPU"
        if setup.method == REPLAY_GRAPH and (reason := why_no_common_shapes(network)):
            return reason
        if setup.method == "step-naive" and (network.composition or network.word_features):
            return f"{setup.method} has neither composition nor word features"
        return None if Path(path).is_file() else f"no treebank {path}"

    def prepare(self, setup: Setup[StackParserSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        if settings.parser.network.transformer:
            raise ValueError("parser.network.transformer: the harness measures no pretrained transformer")
        if settings.parser.network.arcs:
            raise ValueError("parser.network.arcs: the harness does not count the operations of scorers")
        trees = [tree for tree in read_treebank(data_path(settings.treebank)) if is_projective(tree.heads)]
        vocabulary = Vocabulary.build(
            trees,
            settings.parser.network.columns,
            fold_case=settings.parser.network.fold_case,
            predicted=settings.parser.network.tags.predict,
        )
        torch.manual_seed(setup.seed)
        self._model = Model.build(settings.parser, vocabulary, setup.device)
        self._examples = Examples.of(self._model.inventory.to(torch.device("cpu")), vocabulary, trees)
        self._source = BatchSource(self._examples, setup.device)
        self._operations = replay_operations(self._examples, self._model.network)
        network = self._model.network
        self._step = TrainingStep(
            network,
            self._model.inventory,
            make_optimizer(network, settings.optimizer, settings.learning_rate),
            settings.max_grad_norm,
            phase=setup.phase,
        )
        if setup.method == REPLAY_GRAPH:
            others = (self._buckets(setup.seed + 1 + epoch) for epoch in range(EPOCHS))
            self._graphed = GraphedSteps(self._source, self._step, others, setup.phase)
            self._graphed.capture(self.batches())
        if setup.mode == "infer":
            self._train()
            with torch.inference_mode():
                in_graph = setup.method == STEP_GRAPH
                self._running_batch = RunningBatch([self._model], setup.batch_size, in_graph)
        network.train(setup.mode == "train")

    def _train(self) -> None:
        """Train on the first batches, by replay."""
        generator = torch.Generator().manual_seed(self._setup.seed)
        order = torch.randperm(len(self._examples), generator=generator)
        for rows in order.split(TRAINED_BATCH)[: self._setup.settings.trained_batches]:
            self._step.gradients([self._source.batch(rows)])
            self._step.update()
        self._model.network.zero_grad()

    def batches(self) -> list[Tensor]:
        """The numbers of the sentences of each batch, [batch]. A batch contains similar lengths or, with
        continuous batching, any lengths, the longest first."""
        setup, lengths = self._setup, self._examples.tokens.lengths
        if not self._is_continuous():
            return self._buckets(setup.seed)
        generator = torch.Generator().manual_seed(setup.seed)
        groups = torch.randperm(len(lengths), generator=generator).split(SENTENCES_PER_ROW * setup.batch_size)
        return [rows[lengths[rows].argsort(descending=True)] for rows in groups]

    def _buckets(self, seed: int) -> list[Tensor]:
        """The batches of an epoch, [batch] each."""
        generator = torch.Generator().manual_seed(seed)
        return length_buckets(self._examples.tokens.lengths, self._setup.batch_size, False, generator)

    def run(self, batch: Tensor) -> None:
        if self._setup.mode == "train":
            self._gradients(batch)
            self._step.update()
        else:
            with torch.inference_mode():
                self._parse(batch)

    def check(self) -> Tensor:
        generator = torch.Generator().manual_seed(self._setup.seed)
        checked = torch.randperm(len(self._examples), generator=generator)[: self._setup.checked]
        batches = checked.split(self._setup.batch_size)
        if self._setup.mode == "train":
            return self._loss_and_gradients(batches)
        with torch.inference_mode():
            return torch.cat([self._parse(batch) for batch in batches], dim=1).flatten()

    def work(self, batch: Tensor) -> Work:
        training = self._setup.mode == "train"
        return Work(
            sentences=len(batch),
            tokens=int(self._examples.tokens.lengths[batch].sum()),
            # The backward pass needs two products for each product of the forward pass.
            operations=float(self._operations[batch].sum()) * (3 if training else 1),
            padding=self._padding(batch),
        )

    def _is_continuous(self) -> bool:
        return self._setup.mode == "infer" and self._setup.method in ("step", STEP_GRAPH)

    def _gradients(self, *batches: Tensor) -> Tensor:
        """Compute the gradients of the mean loss per transition; return the sum of the losses."""
        if self._setup.method == REPLAY_GRAPH:
            return self._graphed.gradients(torch.cat(batches))
        step = replace(self._step, forward=None if self._setup.method == "replay" else self._forward)
        microbatches = (part for rows in batches for part in self._microbatches(rows))
        loss, _ = step.gradients(microbatches)
        return loss

    def _microbatches(self, rows: Tensor) -> Iterator[Batch]:
        """Yield one microbatch for all sentences or, without batching, one for each."""
        phase = self._setup.phase
        for together in rows.split(1 if self._setup.method == NO_BATCHING else len(rows)):
            with phase("scheduling"):  # indices and levels of the oracle's trajectories
                prepared: Packed[Selection] | Packed[Batch] | Batch
                if self._setup.device.type == "cuda":
                    prepared = self._source.prepared(together, self._source.shape(together))
                else:
                    prepared = self._examples.batch(together, self._group())
            with phase("data"):
                batch = self._source.made(prepared.to(self._setup.device))
            yield batch

    def _forward(self, batch: Batch, inventory: Inventory) -> BatchLoss:
        """Like `StackParser.forward`, but with the measured method."""
        network = self._model.network
        unbatched = score_sentence if network.is_of_ding_and_koehn else score_by_stepping
        methods = {NO_BATCHING: unbatched, "step-naive": score_with_paper_decoder, "step": score_by_stepping}
        words = network.encode(batch.tokens)
        scores = methods[self._setup.method](network, inventory, words.table, batch)  # [S, transitions]
        return network.loss(scores, words, batch, inventory)

    def _loss_and_gradients(self, batches: Sequence[Tensor]) -> Tensor:
        """[1 + 2 * weights] The loss, and its gradients' fingerprints, without dropout."""
        network = self._model.network
        with _without_dropout(network):
            if self._setup.method == REPLAY_GRAPH:
                loss = self._graphed.checked(torch.cat(list(batches)))
            else:
                loss = self._gradients(*batches)
        results = torch.cat([loss.cpu()[None], fingerprints(gradients_of(network.parameters()))])
        network.zero_grad()
        return results

    def _parse(self, rows: Tensor) -> Tensor:
        """[2, words] Heads and labels of some sentences."""
        model, method, phase, device = self._model, self._setup.method, self._setup.phase, self._setup.device
        found = []
        for together in rows.split(1 if method == NO_BATCHING else len(rows)):
            with phase("data"):
                tokens = self._examples.tokens.select(together)
            with phase("forward"):
                if method == NO_BATCHING:
                    state = parse_one(model, tokens.to(device))
                elif method == "step-naive":
                    state = parse_batch(model, tokens.to(device))
                else:
                    arcs = parse_tokens(self._running_batch, model, tokens)
                    found += [torch.tensor([own.heads, own.labels]) for own in arcs]
                    continue
            with phase("data"):
                found.append(torch.stack([state.heads[:-1], state.labels[:-1]]).cpu())
        return torch.cat(found, dim=1)

    def _padding(self, rows: Tensor) -> float | None:
        """Share of the LSTMs' rows whose results are not used; None with continuous batching."""
        if self._setup.method == NO_BATCHING:
            return 0.0
        if self._is_continuous():
            return None
        tokens, trajectories = self._examples.tokens, self._examples.trajectories
        steps, nodes = trajectories.steps, trajectories.stack_nodes
        rows = rows[tokens.lengths[rows].argsort(descending=True)]
        needed = sum(int(part.lengths[rows].sum()) for part in (tokens, steps, nodes)) + len(rows)
        if self._setup.method == REPLAY_GRAPH:
            own = self._source.shape(rows)
            return 1 - needed / (self._graphed.shape_for(own) or own).lstm_rows
        of_buffer = Padding.of(tokens.lengths[rows] + 1, self._group()).rows
        of_history = Padding.of(steps.lengths[rows], self._group()).rows
        of_stack = int(nodes.lengths[rows].sum()) if self._setup.method == "replay" else of_history
        return 1 - needed / (of_stack + of_buffer + of_history)

    def _group(self) -> int | None:
        """The number of sentences over which replay runs its LSTMs at a time, or None for the whole batch."""
        return group_size(self._setup.device) if self._setup.method == "replay" else None


@contextmanager
def _without_dropout(network: nn.Module) -> Iterator[None]:
    """Turn off dropout without leaving the training mode, which cuDNN needs to compute gradients."""
    dropping = [module for module in network.modules() if getattr(module, "dropout", 0.0)]
    probabilities = [module.dropout for module in dropping]
    for module in dropping:
        module.dropout = 0.0  # type: ignore[assignment]
    yield
    for module, probability in zip(dropping, probabilities, strict=True):
        module.dropout = probability


def replay_operations(examples: Examples, network: StackParser) -> Tensor:
    """[sentences] Floating-point operations of the matrix products that replay needs for a forward pass.

    Each LSTM needs an input product for each frame and a recurrent product for each frame with a successor.
    A stack node needs only one for all nodes on top of it. The character convolution is not counted, because
    it runs once for each distinct form of a batch.
    """
    found = examples.trajectories
    words, steps = examples.tokens.lengths, found.steps.lengths
    nodes, parents = found.stack_nodes.lengths, _parents(found.stack_counts)
    composed = torch.zeros_like(words) if found.composed is None else found.composed.lengths
    hidden, layers = network.stack.hidden_size, network.stack.num_layers
    columns, token = network.tokens.join.in_features, network.tokens.join.out_features
    size, transitions = network.tokens.size, network.scores.out_features

    def lstm(frames: Tensor, followed: Tensor, inputs: int) -> Tensor:
        gates = 4 * hidden
        first = frames * inputs * gates + followed * hidden * gates
        return first + (layers - 1) * (frames + followed) * hidden * gates

    buffer = words + 1 if found.buffer_nodes is None else found.buffer_nodes.lengths
    products = (
        words * columns * token
        + lstm(nodes, parents, size)
        + lstm(buffer, words, size)
        + lstm(steps, steps - 1, network.history.input_size)
        + (nodes + buffer + steps) * hidden * hidden
        + steps * hidden * transitions
    )
    above = network.layers_above_tags
    for encoder in (network.tokens.sentence_encoder, above.lstm if above else None):
        if encoder is not None:
            of_inputs, recurrent = (
                sum(weight.numel() for name, weight in encoder.named_parameters() if name.startswith(kind))
                for kind in ("weight_ih", "weight_hh")
            )
            products = products + words * of_inputs + (words - 1) * recurrent
    of_tags = [*network.tags.values(), *(above.embeddings.values() if above else ())]
    of_tags_weights = (weight for layer in of_tags for weight in layer.parameters())
    products = products + words * sum(weight.numel() for weight in of_tags_weights if weight.dim() == 2)
    if network.composition:
        products = products + composed * 2 * size * size
    if network.from_words:
        products = products + (words + 2 + composed) * network.from_words.weight.numel()
    return 2 * products


def _parents(counts: Ragged) -> Tensor:
    """[sentences] The number of stack nodes of each sentence that have other nodes on top. counts: of each
    class, see `execution_order`."""
    of_parents = counts.values * (counts.position_in_row() % 2 == 0)
    return torch.zeros_like(counts.lengths).index_add_(0, counts.row_of_element(), of_parents)


def parse_tokens(
    batch: RunningBatch, model: Model, tokens: Tokens, probabilities: bool = False
) -> list[Arcs]:
    """Parse sentences in a batch of this model without other sentences."""
    slots = batch.join([EncodedSentences(tokens, model.network.encode_distinct(tokens)[0])], probabilities)
    found: dict[int, Arcs] = {}
    while len(found) < len(slots):
        batch.work()
        found |= batch.done()
    return [found[slot] for slot in slots]


PLUGIN: type[Plugin[StackParserSettings]] = StackParserPlugin
