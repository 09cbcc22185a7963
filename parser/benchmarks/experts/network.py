"""A sparsely gated mixture of experts: a gate chooses few of many experts per example (Shazeer et al. 2017).

It has its own backward pass, because autograd would allocate a zero gradient of all experts' weights for each
called expert. Here gradients are computed, stored (as sparse tensors) and applied for the chosen experts
only.
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
"""Each call by itself; each expert once, on all its rows; all experts by one grouped matrix product."""


class ExpertSizes(NamedTuple):
    experts: int
    chosen: int = 1
    """The number of experts per example."""
    inputs: int = 256
    hidden: int = 256
    outputs: int = 256


class Around(NamedTuple):
    """Context managers around the computation of the experts, to time it."""

    forward: Callable[[], AbstractContextManager[object]] = nullcontext
    backward: Callable[[], AbstractContextManager[object]] = nullcontext


class Routing(NamedTuple):
    """The experts of each example, and their shares."""

    share: Tensor | None
    """[batch, chosen]; None if one expert is chosen, whose share is 1."""
    calls: Calls


class Experts(nn.Module):
    def __init__(self, sizes: ExpertSizes):
        """Initialised like `nn.Linear`. Raises ValueError if more experts are chosen than there are."""
        super().__init__()
        if sizes.chosen > sizes.experts:
            raise ValueError(f"{sizes.chosen} experts cannot be chosen of {sizes.experts}")
        self.sizes = sizes
        self.gate = nn.Linear(sizes.inputs, sizes.experts)
        experts = sizes.experts
        self.first = _uniform(sizes.inputs, experts, sizes.inputs, sizes.hidden)
        self.first_bias = _uniform(sizes.inputs, experts, sizes.hidden)
        self.second = _uniform(sizes.hidden, experts, sizes.hidden, sizes.outputs)
        self.second_bias = _uniform(sizes.hidden, experts, sizes.outputs)

    def route(self, inputs: Tensor, method: str) -> Routing:
        """The experts with the highest gate scores; their shares are the softmax of these scores.

        inputs: [batch, inputs]. If one is chosen, its share is 1 whatever the scores, and the gate learns
        nothing.
        """
        scores = linear(inputs, self.gate.weight, self.gate.bias)  # [batch, experts]
        if self.sizes.chosen == 1:
            return Routing(None, self._calls(scores.max(dim=1).indices, method))
        best, expert = scores.topk(self.sizes.chosen, dim=1)  # both [batch, chosen]
        return Routing(best.softmax(dim=1), self._calls(expert.flatten(), method))

    def forward(self, inputs: Tensor, routing: Routing, around: Around | None = None) -> Tensor:
        """[batch, outputs] inputs: [batch, inputs]; routing: by `route` of the same inputs."""
        weights = (self.first, self.first_bias, self.second, self.second_bias)
        # [calls, outputs]
        found = _ExpertsFunction.apply(inputs, *weights, routing.calls, around or Around())
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
    """Weights or biases initialised like those of `nn.Linear` with that number of inputs."""
    bound = inputs**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


class _ExpertsFunction(Function):
    """The outputs [calls, outputs] of each example's experts, in the order of their scores."""

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
        d_rows = torch.empty_like(rows) if ctx.needs_input_grad[0] else None  # [calls, inputs]
        with ctx.around.backward():
            used, found = calls.backward(rows, hidden, gradient, ExpertWeights(*weights), d_rows)
        d_inputs = None if d_rows is None else calls.sum_by_example(d_rows)
        stacks = (_sparse(used, values, len(stack)) for values, stack in zip(found, weights, strict=True))
        return d_inputs, *stacks, None, None


def _sparse(used: Tensor, values: Tensor, experts: int) -> Tensor:
    """[experts, ...] sparse, with `values` [used, ...] for the experts `used` [used]."""
    size = (experts, *values.shape[1:])
    return torch.sparse_coo_tensor(used[None], values, size, check_invariants=False)
