"""A sparsely gated mixture of experts (Suarez & Zhu 2017): the calls are known only after the gate has run.

Experts are 256-256-256, as in the authors' code; the figure caption of the paper says 256-256-(number of
experts). Inputs and targets are random, because only one layer is measured. With one expert per example, the
gate learns nothing.

`none`, `static` and `grouped` are ours; `loop` and `library` are what `transformers` does, with gradients by
autograd.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching import PRECISIONS
from parser.speed.tasks.experts.methods import METHODS
from parser.speed.tasks.experts.network import Around, ExpertSizes
from parser.speed.tasks.plugin import (
    CELLS,
    CELLS_BACKWARD,
    Methods,
    Plugin,
    Setup,
    Work,
    fingerprints,
    gradients_of,
)
from parser.system.settings import Settings


class MixtureOfExpertsSettings(Settings):
    experts: int = Field(10, gt=0)
    chosen: int = Field(1, gt=0)
    """Number of experts per example."""
    gate: Literal["plain", "noisy"] = "plain"
    """Kind of gate. `noisy`: normal noise of learned scales is added to the gate's scores (Shazeer et al.
    2017)."""
    input_size: int = Field(256, gt=0)
    hidden_size: int = Field(256, gt=0)
    output_size: int = Field(256, gt=0)
    examples: int = Field(64, gt=0)
    """Number of random examples. There is at least one batch of them."""
    learning_rate: float = Field(0.1, gt=0)

    @model_validator(mode="after")
    def _enough_experts(self) -> MixtureOfExpertsSettings:
        if self.chosen > self.experts:
            raise ValueError(f"chosen: {self.chosen} is more than the {self.experts} experts")
        return self

    def sizes(self) -> ExpertSizes:
        widths = (self.input_size, self.hidden_size, self.output_size)
        return ExpertSizes(self.experts, self.chosen, *widths, noisy=self.gate == "noisy")


class RegressionExamples(NamedTuple):
    inputs: Tensor
    """[batch, inputs]"""
    targets: Tensor
    """[batch, outputs]"""
    noise: Tensor | None
    """[batch, experts] For a noisy gate; None if there is none, or if it is drawn anew in each step."""

    def split(self, size: int) -> list[RegressionExamples]:
        """Split the examples into batches of at most this size."""
        inputs, targets = self.inputs.split(size), self.targets.split(size)
        noise = [None] * len(inputs) if self.noise is None else self.noise.split(size)
        return [RegressionExamples(*each) for each in zip(inputs, targets, noise, strict=True)]


class MixtureOfExperts:
    name = "mixture_of_experts"
    paper = "Suarez & Zhu 2017, Figure 3"
    methods: ClassVar[Methods] = METHODS
    example_name: ClassVar[str] = "examples"
    grid_over: ClassVar[str] = "experts"
    precisions = PRECISIONS
    Settings = MixtureOfExpertsSettings

    def skip(self, setup: Setup[MixtureOfExpertsSettings]) -> str | None:
        return METHODS.chosen(setup).skip(setup)

    def prepare(self, setup: Setup[MixtureOfExpertsSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        torch.manual_seed(setup.seed)
        self._network = METHODS.chosen(setup).make(setup, settings.sizes()).to(setup.device)
        self._optimizer = torch.optim.SGD(self._network.parameters(), lr=settings.learning_rate)
        self._checked = self._make_examples(setup.checked, with_noise=settings.gate == "noisy")
        self._examples = self._make_examples(max(settings.examples, setup.batch_size), with_noise=False)
        self._around = Around(partial(setup.phase, CELLS), partial(setup.phase, CELLS_BACKWARD))

    def batches(self) -> list[RegressionExamples]:
        return self._examples.split(self._setup.batch_size)

    def run(self, batch: RegressionExamples) -> None:
        if self._setup.mode == "infer":
            with torch.inference_mode():
                self._outputs(batch)
            return
        phase = self._setup.phase
        loss = self._loss(batch) / len(batch.inputs)
        with phase("backward"):
            self._optimizer.zero_grad()
            loss.backward()
        with phase("update"):
            self._optimizer.step()

    def check(self) -> Tensor:
        """In training, [1 + 2 * weights] the loss, and the fingerprints of its gradients; in inference, the
        mean squared errors [batch], and not the outputs, some of which are 0 up to rounding."""
        batches = self._checked.split(self._setup.batch_size)
        if self._setup.mode == "infer":
            with torch.inference_mode():
                errors = [(self._outputs(batch) - batch.targets).square().mean(1) for batch in batches]
                return torch.cat(errors)
        self._optimizer.zero_grad()
        losses = []
        for batch in batches:
            loss = self._loss(batch)
            loss.backward()
            losses.append(loss.detach())
        loss = torch.stack(losses).sum().cpu()
        results = torch.cat([loss[None], fingerprints(gradients_of(self._network.parameters()))])
        self._optimizer.zero_grad()
        return results

    def work(self, batch: RegressionExamples) -> Work:
        with torch.inference_mode():
            routing = self._network.route(self._network.gate(batch.inputs, batch.noise))
        examples = len(batch.inputs)
        training = self._setup.mode == "train"
        return Work(
            sentences=examples,
            tokens=examples,
            operations=examples * expert_operations(self._network.sizes, training),
            padding=0.0,
            counts={"calls of experts": self._network.calls(routing)},
        )

    def _loss(self, batch: RegressionExamples) -> Tensor:
        """The mean squared errors, summed over examples."""
        outputs = self._outputs(batch)
        with self._setup.phase("forward"):
            return F.mse_loss(outputs, batch.targets, reduction="sum") / outputs.shape[1]

    def _outputs(self, batch: RegressionExamples) -> Tensor:
        """[batch, outputs]"""
        phase = self._setup.phase
        with phase("scheduling"):
            choice = self._network.gate(batch.inputs, batch.noise)
            routing = self._network.route(choice)
        with phase("forward"):
            return self._network(batch.inputs, choice, routing, self._around)

    def _make_examples(self, number: int, with_noise: bool) -> RegressionExamples:
        """Generate the examples, which are the same for every method."""
        sizes = self._network.sizes
        generator = torch.Generator().manual_seed(self._setup.seed)
        widths = (sizes.inputs, sizes.outputs, *([sizes.experts] if with_noise else []))
        made = (torch.randn(number, width, generator=generator) for width in widths)
        inputs, targets, *noise = (rows.to(self._setup.device) for rows in made)
        return RegressionExamples(inputs, targets, noise[0] if noise else None)


def expert_operations(sizes: ExpertSizes, training: bool) -> float:
    """Floating-point operations of the products for one example."""
    gate = sizes.inputs * sizes.experts * (2 if sizes.noisy else 1)
    first = sizes.chosen * sizes.inputs * sizes.hidden
    second = sizes.chosen * sizes.hidden * sizes.outputs
    if training:
        # The backward pass needs one product for the weights and one for the inputs of a layer. The inputs
        # of the network need no gradient, nor does the gate if a single expert is chosen.
        gate *= 2 if sizes.chosen > 1 else 1
        first *= 2
        second *= 3
    return 2.0 * (gate + first + second)


PLUGIN: type[Plugin[MixtureOfExpertsSettings]] = MixtureOfExperts
