"""A sparsely gated mixture of experts (Shazeer et al. 2017): a gate chooses few of many for each example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from parser.benchmarks.experts.gate import Choice, Gate


class ExpertSizes(NamedTuple):
    experts: int
    chosen: int = 1
    """The number of experts per example."""
    inputs: int = 256
    hidden: int = 256
    outputs: int = 256
    noisy: bool = False
    """Whether the gate is noisy."""


class ExpertWeights(NamedTuple):
    """The weights of experts (linear, ReLU, linear); or of one expert; or their gradients."""

    first: Tensor
    """[experts, inputs, hidden]"""
    first_bias: Tensor
    """[experts, hidden]"""
    second: Tensor
    """[experts, hidden, outputs]"""
    second_bias: Tensor
    """[experts, outputs]"""

    def of(self, expert: int) -> ExpertWeights:
        return ExpertWeights(*(stack[expert] for stack in self))


class Around(NamedTuple):
    """Context managers around the computation of the experts, to time it."""

    forward: Callable[[], AbstractContextManager[object]] = nullcontext
    backward: Callable[[], AbstractContextManager[object]] = nullcontext


class Experts(nn.Module, ABC):
    """The gate and the experts. How the chosen experts run is up to its subclasses."""

    def __init__(self, sizes: ExpertSizes):
        """Initialised like `nn.Linear`. Raises ValueError if more experts are chosen than there are."""
        super().__init__()
        experts = sizes.experts
        if sizes.chosen > experts:
            raise ValueError(f"{sizes.chosen} experts cannot be chosen of {experts}")
        self.sizes = sizes
        self.gate = Gate(sizes.inputs, experts, sizes.chosen, sizes.noisy)
        self.first = _uniform(sizes.inputs, experts, sizes.inputs, sizes.hidden)
        self.first_bias = _uniform(sizes.inputs, experts, sizes.hidden)
        self.second = _uniform(sizes.hidden, experts, sizes.hidden, sizes.outputs)
        self.second_bias = _uniform(sizes.hidden, experts, sizes.outputs)

    @property
    def stacks(self) -> ExpertWeights:
        return ExpertWeights(self.first, self.first_bias, self.second, self.second_bias)

    @abstractmethod
    def route(self, choice: Choice) -> Any:
        """What `forward` needs to know of the gate's choice."""

    @abstractmethod
    def calls(self, routing: Any) -> int:
        """The number of calls of experts, where those that run together count as one."""

    @abstractmethod
    def forward(self, inputs: Tensor, choice: Choice, routing: Any, around: Around) -> Tensor:
        """[batch, outputs] inputs: [batch, inputs]; routing: of this choice, by `route`."""


def weighted_sum(calls: Tensor, choice: Choice) -> Tensor:
    """[batch, outputs] Of the outputs of each example's experts. calls: [batch * chosen, outputs]"""
    if choice.share is None:
        return calls
    by_example = calls.view(*choice.share.shape, calls.shape[1])  # [batch, chosen, outputs]
    return (by_example * choice.share[:, :, None]).sum(1)


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Weights or biases initialised like those of `nn.Linear` with that number of inputs."""
    bound = inputs**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
