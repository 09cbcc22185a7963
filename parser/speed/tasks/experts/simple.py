"""Mixtures of experts as they are usually written, with gradients by autograd, for comparison with ours.

`LoopedExperts` is the loop of Mixtral in `transformers`: for each expert, it finds the numbers of its
examples, runs its layers, and calls `index_add_`. The stacks of weights are unbound once, because autograd
would otherwise allocate the gradient of a whole stack for each expert. `SortedExperts` does the same as
`transformers` with `torch.nn.functional.grouped_mm`: sort, two grouped products, sort back.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.functional import present_precision
from parser.batching.groups import Groups, torchs_grouped_product
from parser.speed.tasks.experts.network import (
    Around,
    ChosenExperts,
    Experts,
    ExpertSizes,
    ExpertWeights,
    weighted_sum,
)


class PlainExperts(Experts):
    """Experts whose products are computed in the precision of the process, whatever their size."""

    def __init__(self, sizes: ExpertSizes, fixed: bool):
        """fixed: whether the weights never change, so that they are converted to the precision only once."""
        super().__init__(sizes)
        self._fixed = fixed

    def _factors(self) -> ExpertWeights:
        return self._fixed_factors if self._fixed else self._converted()

    @cached_property
    def _fixed_factors(self) -> ExpertWeights:
        return self._converted()

    def _converted(self) -> ExpertWeights:
        in_bfloat16 = present_precision() == "bfloat16"
        return ExpertWeights(*(stack.bfloat16() if in_bfloat16 else stack for stack in self.stacks))


class Mask(NamedTuple):
    called: list[int]
    """The experts that are called."""
    examples: Tensor
    """[experts, chosen, batch] Whether an example calls an expert."""


class LoopedExperts(PlainExperts):
    def route(self, choice: ChosenExperts) -> Mask:
        """Route with one host synchronisation."""
        experts = torch.arange(self.sizes.experts, device=choice.expert.device)
        examples = experts[:, None, None] == choice.expert.T  # [experts, chosen, batch]
        return Mask(examples.flatten(1).any(1).nonzero().flatten().tolist(), examples)

    def calls(self, routing: Mask) -> int:
        return len(routing.called)

    def forward(self, inputs: Tensor, choice: ChosenExperts, routing: Mask, around: Around) -> Tensor:
        """Run the experts with one host synchronisation for each called expert."""
        outputs = inputs.new_zeros(len(inputs), self.sizes.outputs)  # [batch, outputs]
        factors = self._factors()
        experts = list(zip(*(stack.unbind() for stack in factors), strict=True))
        for number in routing.called:
            place, example = torch.where(routing.examples[number])  # both [calls of this expert]
            first, first_bias, second, second_bias = experts[number]
            rows = inputs[example].to(first.dtype)
            with around.forward():
                hidden = torch.addmm(first_bias, rows, first).relu_()
                found = torch.addmm(second_bias, hidden, second)
            if choice.share is not None:
                found = found * choice.share[example, place, None]
            outputs.index_add_(0, example, found.to(outputs.dtype))
        return outputs


class SortedExperts(PlainExperts):
    def route(self, choice: ChosenExperts) -> Groups:
        return Groups.of(choice.expert.flatten(), self.sizes.experts)

    def calls(self, routing: Groups) -> int:
        return 1

    def forward(self, inputs: Tensor, choice: ChosenExperts, routing: Groups, around: Around) -> Tensor:
        first, first_bias, second, second_bias = self._factors()
        product, ends, module = torchs_grouped_product(), routing.ends, routing.module
        rows = inputs[routing.order // self.sizes.chosen].to(first.dtype)  # [calls, inputs]
        with around.forward():
            hidden = product(rows, first, offs=ends) + first_bias[module]  # [calls, hidden]
            found = product(hidden.relu_(), second, offs=ends) + second_bias[module]  # [calls, outputs]
        return weighted_sum(found[routing.position].to(inputs.dtype), choice)
