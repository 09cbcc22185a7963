"""A sparsely gated layer: for each example a gate chooses few of many experts (Shazeer et al. 2017).

Written with its own backward pass: torch's makes zeros of all experts' weights for each expert that is
differentiated. Here gradients are computed, stored (as sparse tensors) and applied for the chosen ones alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.groups import Groups, Runs
from parser.batching.product import linear
from parser.benchmarks.experts.calls import Calls, CallsByRun, ExpertWeights, GroupedCalls

METHODS = ("none", "static", "grouped")
"""Each call by itself; each expert once, on all its rows; all experts by torch's `grouped_product`."""


class ExpertSizes(NamedTuple):
    experts: int
    chosen: int = 1
    """Experts of each example."""
    inputs: int = 256
    hidden: int = 256
    outputs: int = 256


class Around(NamedTuple):
    """What is entered around the experts' own work, to time it."""

    forward: Callable[[], AbstractContextManager[object]] = nullcontext
    backward: Callable[[], AbstractContextManager[object]] = nullcontext


class Routing(NamedTuple):
    """Which experts each example gets, and how much of each."""

    share: Tensor | None
    """[batch, chosen]; None where one is chosen, of which the example gets all."""
    calls: Calls


class Experts(nn.Module):
    def __init__(self, sizes: ExpertSizes):
        """Initialised as torch's linear layers. Raises ValueError if more are chosen than there are."""
        super().__init__()
        if sizes.chosen > sizes.experts:
            raise ValueError(f"{sizes.chosen} experts can not be chosen of {sizes.experts}")
        self.sizes = sizes
        self.gate = nn.Linear(sizes.inputs, sizes.experts)
        experts = sizes.experts
        self.first = _uniform(sizes.inputs, experts, sizes.inputs, sizes.hidden)
        self.first_bias = _uniform(sizes.inputs, experts, sizes.hidden)
        self.second = _uniform(sizes.hidden, experts, sizes.hidden, sizes.outputs)
        self.second_bias = _uniform(sizes.hidden, experts, sizes.outputs)

    def route(self, inputs: Tensor, method: str) -> Routing:
        """inputs: [batch, inputs]. The best by the gate's scores, shared by a softmax over them.

        With one chosen its share is 1 whatever the scores are, and the gate learns nothing.
        """
        scores = linear(inputs, self.gate.weight, self.gate.bias)  # [batch, experts]
        if self.sizes.chosen == 1:
            return Routing(None, self._calls(scores.max(dim=1).indices, method))
        best, expert = scores.topk(self.sizes.chosen, dim=1)  # both [batch, chosen]
        return Routing(best.softmax(dim=1), self._calls(expert.flatten(), method))

    def forward(self, inputs: Tensor, routing: Routing, around: Around | None = None) -> Tensor:
        """[batch, outputs] inputs: [batch, inputs], of which `routing` is."""
        weights = (self.first, self.first_bias, self.second, self.second_bias)
        found = _ExpertsFunction.apply(
            inputs, *weights, routing.calls, around or Around()
        )  # [calls, outputs]
        if routing.share is None:
            return found
        by_example = found.view(*routing.share.shape, self.sizes.outputs)  # [batch, chosen, outputs]
        return (by_example * routing.share[:, :, None]).sum(1)

    def _calls(self, expert: Tensor, method: str) -> Calls:
        """expert: [calls]"""
        chosen = self.sizes.chosen
        if method == "none":
            return CallsByRun(Runs.one_by_one(expert), chosen)
        groups = Groups.of(expert, self.sizes.experts)
        return (
            GroupedCalls(chosen, groups) if method == "grouped" else CallsByRun(groups.runs(), chosen, groups)
        )


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """As torch's linear layer of so many inputs has its weights and its bias."""
    bound = inputs**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


class _ExpertsFunction(Function):
    """The rows [calls, outputs] of each example's experts, in the order of their choice."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        first: Tensor,
        first_bias: Tensor,
        second: Tensor,
        second_bias: Tensor,
        calls: Calls,
        around: Around,
    ) -> Tensor:
        rows = calls.of_examples(inputs)  # [calls, inputs]
        weights = ExpertWeights(first, first_bias, second, second_bias)
        with around.forward():
            hidden, found = calls.forward(rows, weights)
        ctx.calls, ctx.around = calls, around
        ctx.save_for_backward(rows, hidden, *weights)
        return calls.put_back(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, *weights = ctx.saved_tensors
        calls: Calls = ctx.calls
        gradient = calls.in_order(gradient)
        at_rows = torch.empty_like(rows) if ctx.needs_input_grad[0] else None  # [calls, inputs]
        with ctx.around.backward():
            used, found = calls.backward(rows, hidden, gradient, ExpertWeights(*weights), at_rows)
        at_inputs = None if at_rows is None else calls.sum_by_example(at_rows)
        stacks = (_sparse(used, values, len(stack)) for values, stack in zip(found, weights, strict=True))
        return at_inputs, *stacks, None, None


def _sparse(used: Tensor, values: Tensor, experts: int) -> Tensor:
    """[experts, ...] `values` [used, ...] at the experts `used` [used], nothing at the others."""
    size = (experts, *values.shape[1:])
    return torch.sparse_coo_tensor(used[None], values, size, check_invariants=False)
