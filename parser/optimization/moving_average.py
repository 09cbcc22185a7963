"""The moving average of a network's weights, which parses better than the weights of any one step."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)
UPDATES = "updates"


class MovingAverage(Generic[Network]):
    """A copy that follows a network: each update keeps so much of it.

    The first updates keep less, so that the weights that training began with are soon forgotten. Weights
    that are not trained are the network's own, but for those of recurrent layers: cuDNN wants all weights of
    such a layer together, and so twice.
    """

    def __init__(self, network: Network, keep: float):
        self._keep, self._updates = keep, 0
        recurrent = {weight for layer in _recurrent(network) for weight in layer.parameters()}
        shared = {weight for weight in network.parameters() if not weight.requires_grad} - recurrent
        self.network = copy.deepcopy(network, {id(weight): weight for weight in shared})
        for layer in _recurrent(self.network):
            layer.flatten_parameters()
        self._mine, self._theirs = (list(_trained(each).values()) for each in (self.network, network))

    @torch.no_grad()
    def update(self) -> None:
        kept = min(self._keep, self._updates / (9 + self._updates))
        torch._foreach_lerp_(self._mine, self._theirs, 1 - kept)
        self._updates += 1

    def state(self) -> dict[str, Tensor]:
        """What `go_on_from` needs."""
        return {**_trained(self.network), UPDATES: torch.tensor(self._updates)}

    def go_on_from(self, state: dict[str, Tensor]) -> None:
        self._updates = int(state[UPDATES])
        with torch.no_grad():
            for name, weight in _trained(self.network).items():
                weight.copy_(state[name])


def _recurrent(network: nn.Module) -> list[nn.RNNBase]:
    return [part for part in network.modules() if isinstance(part, nn.RNNBase)]


def _trained(network: nn.Module) -> dict[str, Tensor]:
    """The weights by their names, but not the frozen ones."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
