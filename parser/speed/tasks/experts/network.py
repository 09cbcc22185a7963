"""A sparsely gated mixture of experts (Shazeer et al. 2017): a gate chooses few experts for each example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.functional import linear


class ExpertSizes(NamedTuple):
    experts: int
    chosen: int = 1
    """The number of experts per example."""
    inputs: int = 256
    hidden: int = 256
    outputs: int = 256
    noisy: bool = False
    """Whether the gate is noisy."""


class ChosenExperts(NamedTuple):
    """The experts of each example, best first, and their shares."""

    expert: Tensor
    """[batch, chosen]"""
    share: Tensor | None
    """[batch, chosen]; None if one expert is chosen, whose share is 1."""


class Gate(nn.Module):
    """A plain gate, or the noisy top-k gate of Shazeer et al. 2017, section 2.1.

    Suarez & Zhu 2017, section 3.2, use the noisy gate, too; their code also contains biases.
    """

    def __init__(self, inputs: int, experts: int, chosen: int, noisy: bool):
        """chosen: the number of experts per example. noisy: whether scores get noise of learned scales."""
        super().__init__()
        self._chosen = chosen
        self.score = nn.Linear(inputs, experts)
        self.scale = nn.Linear(inputs, experts) if noisy else None

    def forward(self, inputs: Tensor, noise: Tensor | None = None) -> ChosenExperts:
        """The experts with the highest scores; their shares are the softmax of these scores.

        inputs: [batch, inputs]; noise: [batch, experts] for a noisy gate, drawn from a standard normal
        distribution if it is not given. If one expert is chosen, the gate learns nothing.
        """
        scores = linear(inputs, self.score.weight, self.score.bias)  # [batch, experts]
        if self.scale is not None:
            drawn = torch.randn_like(scores) if noise is None else noise
            scores = scores + drawn * F.softplus(linear(inputs, self.scale.weight, self.scale.bias))
        if self._chosen == 1:
            return ChosenExperts(scores.max(dim=1, keepdim=True).indices, None)
        best, expert = scores.topk(self._chosen, dim=1)  # both [batch, chosen]
        return ChosenExperts(expert, best.softmax(dim=1))


class ExpertWeights(NamedTuple):
    """The weights of several experts (linear, ReLU, linear) or of one expert, or their gradients."""

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
    def route(self, choice: ChosenExperts) -> Any:
        """Prepare the gate's choice in the form that `forward` needs."""

    @abstractmethod
    def calls(self, routing: Any) -> int:
        """The number of calls of experts. Calls that run together count as one."""

    @abstractmethod
    def forward(self, inputs: Tensor, choice: ChosenExperts, routing: Any, around: Around) -> Tensor:
        """[batch, outputs] inputs: [batch, inputs]; routing: the result of `route` for this choice."""


def weighted_sum(calls: Tensor, choice: ChosenExperts) -> Tensor:
    """[batch, outputs] Sum the outputs of each example's experts. calls: [batch * chosen, outputs]"""
    if choice.share is None:
        return calls
    by_example = calls.view(*choice.share.shape, calls.shape[1])  # [batch, chosen, outputs]
    return (by_example * choice.share[:, :, None]).sum(1)


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Weights or biases initialised like those of `nn.Linear` with that number of inputs."""
    bound = inputs**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
