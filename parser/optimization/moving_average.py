"""The exponential moving average of a network's weights."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)
UPDATES = "updates"


class MovingAverage(Generic[Network]):
    """A copy of a network whose weights are the average: average = decay * average + (1 - decay) * weights.

    The decay of the first updates is lower, so that the initial weights soon have no influence. Weights that
    are not trained are shared with the network, except in recurrent layers, whose weights cuDNN needs in one
    block of memory.
    """

    def __init__(self, network: Network, decay: float):
        self._decay, self._updates = decay, 0
        recurrent = {weight for layer in _recurrent(network) for weight in layer.parameters()}
        shared = {weight for weight in network.parameters() if not weight.requires_grad} - recurrent
        self.network = copy.deepcopy(network, {id(weight): weight for weight in shared})
        for layer in _recurrent(self.network):
            layer.flatten_parameters()
        self._averages, self._weights = (list(_trained(each).values()) for each in (self.network, network))

    @torch.no_grad()
    def update(self) -> None:
        decay = min(self._decay, self._updates / (9 + self._updates))
        torch._foreach_lerp_(self._averages, self._weights, 1 - decay)
        self._updates += 1

    def state(self) -> dict[str, Tensor]:
        """The state for `load_state`."""
        return {**_trained(self.network), UPDATES: torch.tensor(self._updates)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._updates = int(state[UPDATES])
        with torch.no_grad():
            for name, weight in _trained(self.network).items():
                weight.copy_(state[name])


def _recurrent(network: nn.Module) -> list[nn.RNNBase]:
    return [part for part in network.modules() if isinstance(part, nn.RNNBase)]


def _trained(network: nn.Module) -> dict[str, Tensor]:
    """The trained weights by name."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
