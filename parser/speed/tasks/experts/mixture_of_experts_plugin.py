"""A sparsely gated mixture of experts (Suarez & Zhu 2017): the calls are known only after the gate has run.

Experts are 256-256-256, as in the authors' code; the figure caption of the paper says 256-256-(number of
experts). Inputs and targets are random, because only one layer is measured. With one expert per example, the
gate learns nothing.

`none`, `static` and `grouped` are ours; `loop` and `library` are what `transformers` does, with gradients by
autograd.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching import PRECISIONS
from parser.batching.functional import present_precision
from parser.batching.groups import why_not_grouped
from parser.speed.tasks.experts.calls import CALLING_METHODS, CalledExperts
from parser.speed.tasks.experts.network import Around, Experts, ExpertSizes
from parser.speed.tasks.experts.simple import LoopedExperts, SortedExperts
from parser.speed.tasks.plugin import (
    CELLS,
    CELLS_BACKWARD,
    Methods,
    Mode,
    Plugin,
    Setup,
    Work,
    fingerprints,
    gradients_of,
)
from parser.system.machine import available_memory
from parser.system.settings import Settings

LOOP, LIBRARY = "loop", "library"
EXPERT_METHODS = (*CALLING_METHODS, LOOP, LIBRARY)


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
    methods: ClassVar[Methods] = {"train": EXPERT_METHODS, "infer": EXPERT_METHODS}
    method_titles: ClassVar[dict[str, str]] = {
        "static": "a call for each expert",
        "grouped": "a grouped product for all experts",
        LOOP: "the loop of transformers",
        LIBRARY: "PyTorch's grouped product with autograd",
    }
    example_name: ClassVar[str] = "examples"
    grid_over: ClassVar[str] = "experts"
    precisions = PRECISIONS
    Settings = MixtureOfExpertsSettings

    def skip(self, setup: Setup[MixtureOfExpertsSettings]) -> str | None:
        if setup.method in ("grouped", LIBRARY) and (reason := missing_product(setup)):
            return reason
        needed, free = needed_memory(setup), free_memory(setup.device)
        if free is not None and needed > free:
            return f"{needed / 1e9:.1f} GB of weights and gradients, but {free / 1e9:.1f} GB of memory"
        return None

    def prepare(self, setup: Setup[MixtureOfExpertsSettings]) -> None:
        self._setup = setup
        settings = setup.settings
        torch.manual_seed(setup.seed)
        self._network = make_experts(settings.sizes(), setup.method, setup.mode).to(setup.device)
        self._optimizer = torch.optim.SGD(self._network.parameters(), lr=settings.learning_rate)
        self._checked = self._make_examples(setup.checked, with_noise=settings.gate == "noisy")
        self._examples = self._make_examples(max(settings.examples, setup.batch_size), with_noise=False)
        self._around = Around(partial(setup.phase, CELLS), partial(setup.phase, CELLS_BACKWARD))

    def batches(self) -> list[RegressionExamples]:
        return self._examples.split(self._setup.batch_size)

    def run(self, batch: RegressionExamples) -> None:
        if self._setup.mode == "train":
            self._train(batch)
        else:
            with torch.inference_mode():
                self._outputs(batch)

    def check(self) -> Tensor:
        batches = self._checked.split(self._setup.batch_size)
        if self._setup.mode == "train":
            return self._loss_and_gradients(batches)
        with torch.inference_mode():
            return torch.cat([self._errors(batch) for batch in batches])

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

    def _train(self, batch: RegressionExamples) -> None:
        phase = self._setup.phase
        loss = self._loss(batch) / len(batch.inputs)
        with phase("backward"):
            self._optimizer.zero_grad()
            loss.backward()
        with phase("update"):
            self._optimizer.step()

    def _loss(self, batch: RegressionExamples) -> Tensor:
        """The mean squared errors, summed over examples."""
        outputs = self._outputs(batch)
        with self._setup.phase("forward"):
            return F.mse_loss(outputs, batch.targets, reduction="sum") / outputs.shape[1]

    def _errors(self, batch: RegressionExamples) -> Tensor:
        """[batch] Mean squared errors, compared instead of outputs, some of which are 0 up to rounding."""
        return (self._outputs(batch) - batch.targets).square().mean(1)

    def _outputs(self, batch: RegressionExamples) -> Tensor:
        """[batch, outputs]"""
        phase = self._setup.phase
        with phase("scheduling"):
            choice = self._network.gate(batch.inputs, batch.noise)
            routing = self._network.route(choice)
        with phase("forward"):
            return self._network(batch.inputs, choice, routing, self._around)

    def _loss_and_gradients(self, batches: list[RegressionExamples]) -> Tensor:
        """[1 + 2 * weights] The loss, and the fingerprints of its gradients."""
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

    def _make_examples(self, number: int, with_noise: bool) -> RegressionExamples:
        """Generate the examples, which are the same for every method."""
        sizes = self._network.sizes
        generator = torch.Generator().manual_seed(self._setup.seed)
        widths = (sizes.inputs, sizes.outputs, *([sizes.experts] if with_noise else []))
        made = (torch.randn(number, width, generator=generator) for width in widths)
        inputs, targets, *noise = (rows.to(self._setup.device) for rows in made)
        return RegressionExamples(inputs, targets, noise[0] if noise else None)


def make_experts(sizes: ExpertSizes, method: str, mode: Mode) -> Experts:
    """Create the experts of a method. All methods draw the same weights from the same seed."""
    fixed = mode == "infer"
    if method == LOOP:
        return LoopedExperts(sizes, fixed)
    return SortedExperts(sizes, fixed) if method == LIBRARY else CalledExperts(sizes, method)


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


def missing_product(setup: Setup[MixtureOfExpertsSettings]) -> str | None:
    """Return why the grouped product is not available for one of the layers, or None."""
    settings = setup.settings
    widths = (settings.input_size, settings.hidden_size, settings.output_size)
    dtype = torch.bfloat16 if present_precision() == "bfloat16" else torch.float32
    reasons = (why_not_grouped(setup.device, dtype, *layer) for layer in pairwise(widths))
    return next(filter(None, reasons), None)


def needed_memory(setup: Setup[MixtureOfExpertsSettings]) -> int:
    """The bytes of the experts' weights and, in training, of the gradients that a batch can produce."""
    settings = setup.settings
    first = (settings.input_size + 1) * settings.hidden_size
    second = (settings.hidden_size + 1) * settings.output_size
    stored = settings.experts
    if setup.mode == "train":
        dense = setup.method in (LOOP, LIBRARY)  # autograd computes gradients of all experts
        stored += settings.experts if dense else min(settings.experts, setup.batch_size * settings.chosen)
    return 4 * stored * (first + second)


def free_memory(device: torch.device) -> int | None:
    """The free memory in bytes; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available_memory()


PLUGIN: type[Plugin[MixtureOfExpertsSettings]] = MixtureOfExperts
