"""The StackLSTM parser (Ding & Koehn 2019): sentence by sentence, step by step, and by replay.

`step-naive` is the paper's algorithm with PyTorch's LSTM cells, as its authors implemented it. `step` is our
implementation of the same algorithm. `none` parses each sentence separately with its stack in a Python list,
or, with composition or word features, steps through it as a batch of one. Inference is measured with a
network that was trained a little, so that its stacks are as deep as in use. Operations are those of gold
trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from parser.batching import PRECISIONS
from parser.config.data_folder import data_path
from parser.models.network_model import NetworkModel
from parser.models.settings import ParserSettings
from parser.networks.replay.examples import BatchSource, Examples
from parser.networks.stack_parser import StackParser
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, fingerprints, gradients_of
from parser.speed.tasks.stack_parser.methods import METHODS, Gradients, Parts, Trees
from parser.system.settings import Settings
from parser.training.optimizer import OptimizerSettings, make_optimizer
from parser.training.training_step import TrainingStep
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.vocabulary import Vocabulary

TRAINED_BATCH = 32
"""Sentences per batch when the network is trained before inference is measured."""
SENTENCES_PER_ROW = 4
"""With continuous batching, the number of sentences per row of the batch that are parsed in one run."""


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
    methods: ClassVar[Methods] = METHODS
    precisions = PRECISIONS
    Settings = StackParserSettings

    def skip(self, setup: Setup[StackParserSettings]) -> str | None:
        path = data_path(setup.settings.treebank)
        missing = None if Path(path).is_file() else f"no treebank {path}"
        return METHODS.chosen(setup).skip(setup) or missing

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
        model = NetworkModel.build(settings.parser, vocabulary, setup.device)
        network = model.network
        examples = Examples.of(model.inventory.to(torch.device("cpu")), vocabulary, trees)
        self._operations = replay_operations(examples, network)
        step = TrainingStep(
            network,
            model.inventory,
            make_optimizer(network, settings.optimizer, settings.learning_rate),
            settings.max_grad_norm,
            phase=setup.phase,
        )
        self.parts = Parts(setup, model, examples, BatchSource(examples, setup.device), step)
        make = METHODS.chosen(setup).make
        if setup.mode == "train":
            self.training: Gradients = make(self.parts)
        else:
            self._train()
            self.parsing: Trees = make(self.parts)
        network.train(setup.mode == "train")

    def _train(self) -> None:
        """Train on the first batches, by replay."""
        parts = self.parts
        generator = torch.Generator().manual_seed(self._setup.seed)
        order = torch.randperm(len(parts.examples), generator=generator)
        for rows in order.split(TRAINED_BATCH)[: self._setup.settings.trained_batches]:
            parts.step.gradients([parts.source.batch(rows)])
            parts.step.update()
        parts.model.network.zero_grad()

    def batches(self) -> list[Tensor]:
        """The numbers of the sentences of each batch, [batch]. A batch contains similar lengths or, with
        continuous batching, any lengths, the longest first."""
        setup, lengths = self._setup, self.parts.examples.tokens.lengths
        if setup.mode == "train" or not self.parsing.continuous:
            return self.parts.buckets(setup.seed)
        generator = torch.Generator().manual_seed(setup.seed)
        groups = torch.randperm(len(lengths), generator=generator).split(SENTENCES_PER_ROW * setup.batch_size)
        return [rows[lengths[rows].argsort(descending=True)] for rows in groups]

    def run(self, batch: Tensor) -> None:
        if self._setup.mode == "train":
            self.training.gradients(batch)
            self.parts.step.update()
        else:
            with torch.inference_mode():
                self.parsing.parse(batch)

    def check(self) -> Tensor:
        """In training, [1 + 2 * weights] the loss, and its gradients' fingerprints, without dropout."""
        generator = torch.Generator().manual_seed(self._setup.seed)
        checked = torch.randperm(len(self.parts.examples), generator=generator)[: self._setup.checked]
        batches = checked.split(self._setup.batch_size)
        if self._setup.mode == "infer":
            with torch.inference_mode():
                return torch.cat([self.parsing.parse(batch) for batch in batches], dim=1).flatten()
        network = self.parts.model.network
        with _without_dropout(network):
            loss = self.training.checked(*batches)
        results = torch.cat([loss.cpu()[None], fingerprints(gradients_of(network.parameters()))])
        network.zero_grad()
        return results

    def work(self, batch: Tensor) -> Work:
        training = self._setup.mode == "train"
        return Work(
            sentences=len(batch),
            tokens=int(self.parts.examples.tokens.lengths[batch].sum()),
            # The backward pass needs two products for each product of the forward pass.
            operations=float(self._operations[batch].sum()) * (3 if training else 1),
            padding=(self.training if training else self.parsing).padding(batch),
        )


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
    trajectories = examples.trajectories
    words, steps = examples.tokens.lengths, trajectories.steps.lengths
    nodes, counts = trajectories.stack_nodes.lengths, trajectories.stack_counts  # see `execution_order`
    of_parents = counts.values * (counts.position_in_row() % 2 == 0)  # nodes with others on top
    parents = torch.zeros_like(counts.lengths).index_add_(0, counts.row_of_element(), of_parents)
    composed = torch.zeros_like(words) if trajectories.composed is None else trajectories.composed.lengths
    hidden, layers = network.stack.hidden_size, network.stack.num_layers
    columns, token = network.tokens.join.in_features, network.tokens.join.out_features
    size, transitions = network.tokens.size, network.scores.out_features

    def lstm(frames: Tensor, followed: Tensor, inputs: int) -> Tensor:
        gates = 4 * hidden
        first = frames * inputs * gates + followed * hidden * gates
        return first + (layers - 1) * (frames + followed) * hidden * gates

    buffer = words + 1 if trajectories.buffer_nodes is None else trajectories.buffer_nodes.lengths
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


PLUGIN: type[Plugin[StackParserSettings]] = StackParserPlugin
