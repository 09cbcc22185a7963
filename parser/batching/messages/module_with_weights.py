"""A copy of a module that computes with other weights than the module's own."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from torch import Tensor, nn


class ModuleWithWeights:
    """As `torch.func.functional_call`, but weights are set when they change, not at every call.

    Parameters and buffers are the module's own, and so is its mode, training or not. Other attributes are
    copied once.
    """

    def __init__(self, module: nn.Module, weights: Sequence[nn.Parameter]):
        """weights: those parameters of the module that will be replaced by others."""
        number = {id(weight): place for place, weight in enumerate(weights)}
        tensors = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
        self._module = deepcopy(module, memo=tensors)  # the tensors themselves are shared
        self._modes = list(zip(self._module.modules(), module.modules(), strict=True))
        self._places: list[tuple[nn.Module, str, int]] = []
        for part in self._module.modules():
            for name, weight in list(part.named_parameters(recurse=False, remove_duplicate=False)):
                if id(weight) in number:
                    self._places.append((part, name, number[id(weight)]))
                    delattr(part, name)

    def __call__(self, *inputs: Tensor | None) -> Any:
        for copied, original in self._modes:
            copied.training = original.training
        return self._module(*inputs)

    def set(self, weights: Sequence[Tensor]) -> None:
        """Weights in the order of the parameters that they replace."""
        for part, name, place in self._places:
            setattr(part, name, weights[place])
