"""The optimizer of a config, its learning rate, and the exponential moving average of a network's weights.

The learning rate has a linear warm-up, then ReduceLROnPlateau on the dev loss, or linear decay.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from parser.networks.stack_parser import StackParser
from parser.system.settings import Settings

PEAK, WARMUP_EPOCHS = "peak", "warmup_epochs"
"""Keys of a group of weights with its own learning rate."""


Average = Annotated[float, Field(ge=0, lt=1)]


Rate = Annotated[float, Field(gt=0)]


class LearningRateSettings(Settings):
    start: Rate = 5e-4
    """Learning rate at the first step."""
    peak: Rate | Literal["paper"] = "paper"
    """Learning rate after the warm-up. `paper` is the rule of Ding & Koehn 2019: min(start x batch size,
    0.02)."""
    warmup_epochs: int = Field(5, ge=0, le=1_000_000_000)
    """Number of epochs over which the learning rate increases linearly from `start` to `peak`."""
    decay: Literal["plateau", "linear"] = "plateau"
    """How the learning rate changes after the warm-up. `plateau`: it is reduced when the dev loss stops
    improving (ReduceLROnPlateau), see the next three settings. `linear`: it decreases linearly to 0 at the
    end of the last epoch; the dev loss, which takes as long as the dev scores, is not computed."""
    factor: float = Field(0.5, gt=0, lt=1)
    """With `plateau`: factor by which the learning rate is multiplied after more than `patience` epochs
    without a lower dev loss."""
    patience: int = Field(0, ge=0, le=1_000_000_000)
    """With `plateau`: number of epochs without a lower dev loss that are tolerated."""
    minimum: float = Field(1e-5, ge=0)
    """With `plateau`: lower limit of the learning rate."""


class OptimizerSettings(Settings):
    name: Literal["adam", "adamw"] = "adam"
    """Optimizer: Adam (Kingma & Ba 2015), or AdamW (Loshchilov & Hutter 2019), whose weight decay is
    decoupled from the gradient."""
    betas: tuple[Average, Average] = Field((0.9, 0.999), strict=False)
    """Decay rates of the moving averages of the gradient and of its square."""
    eps: float = Field(1e-8, gt=0)
    """Constant that is added to the denominator for numerical stability."""
    weight_decay: float = Field(1e-6, ge=0)
    """L2 penalty with `adam`, decoupled weight decay with `adamw`. It does not apply to pretrained
    vectors."""


def make_optimizer(
    network: StackParser, settings: OptimizerSettings, learning_rate: float = 1e-3
) -> Optimizer:
    """Adam or AdamW for all trained weights; pretrained vectors have no weight decay.

    The groups of a pretrained transformer have their own learning rates, which `Schedule` reads from the keys
    `peak` and `warmup_epochs`.

    The size of Adam's steps hardly depends on the size of the gradient. For a word that is in no batch, the
    L2 penalty is the whole gradient, and reduces its vector to zero within a few hundred steps. This
    regularizes words that are rare in training, but would delete the pretrained vectors of all other words.
    """
    pretrained = set(network.tokens.pretrained_weights())
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    transformer = network.tokens.transformer
    rates = transformer.learning_rates() if transformer else {}
    groups: list[dict[str, Any]] = [
        {
            "params": [weight for weight in trained if weight not in pretrained and weight not in rates],
            "weight_decay": settings.weight_decay,
        },
        {"params": [weight for weight in trained if weight in pretrained], "weight_decay": 0.0},
    ]
    for rate in sorted(set(rates.values()), reverse=True):
        assert transformer
        groups.append(
            {
                "params": [weight for weight in trained if rates.get(weight) == rate],
                "weight_decay": settings.weight_decay,
                PEAK: rate,
                WARMUP_EPOCHS: transformer.settings.warmup_epochs,
            }
        )
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[settings.name]
    return kind(groups, lr=learning_rate, betas=settings.betas, eps=settings.eps, fused=True)


Network = TypeVar("Network", bound=nn.Module)
UPDATES = "updates"


class MovingAverage(Generic[Network]):
    """A copy of a network whose weights are the average: average = decay * average + (1 - decay) * weights.

    The decay is lower in the first updates, so that the initial weights soon lose their influence. Weights
    that are not trained are shared with the network, except in recurrent layers, because cuDNN needs the
    weights of these layers in one block of memory.
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


def peak_learning_rate(settings: LearningRateSettings, batch_size: int) -> float:
    """The peak set in the config, or by the rule of Ding & Koehn 2019: min(start x batch size, 0.02)."""
    return min(settings.start * batch_size, 0.02) if settings.peak == "paper" else settings.peak


class Schedule:
    """Warm-up and decay. torch's SequentialLR cannot contain ReduceLROnPlateau, which needs the loss."""

    def __init__(self, optimizer: Optimizer, settings: LearningRateSettings, peak: float, epochs: int):
        """peak: the learning rate after the warm-up. epochs: the number of epochs of the whole training."""
        self._optimizer, self._settings, self._peak, self._epochs = optimizer, settings, peak, epochs
        self._plateau = ReduceLROnPlateau(
            optimizer,
            factor=settings.factor,
            patience=settings.patience,
            min_lr=settings.minimum,
            threshold=0.0,
        )
        self.before_step(0.0)

    def state(self) -> dict[str, Any]:
        """The state for `load_state`, in types that JSON supports."""
        return {"learning_rate": self.learning_rate, "plateau": self._plateau.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._plateau.load_state_dict(state["plateau"])
        self._set(state["learning_rate"])

    @property
    def learning_rate(self) -> float:
        return self._optimizer.param_groups[0]["lr"]

    def before_step(self, epochs: float) -> None:
        """Set the learning rate of a step. epochs: the epochs since the start of training, fractional.

        Groups with their own peak decay by the same factor as the other groups.
        """
        warmup = self._settings.warmup_epochs
        if epochs <= warmup:
            share = epochs / warmup if warmup else 1.0
            self._set(self._settings.start + share * (self._peak - self._settings.start))
        elif self._settings.decay == "linear":
            self._set(self._peak * (self._epochs - epochs) / (self._epochs - warmup))
        decayed = 1.0 if epochs <= warmup else self.learning_rate / self._peak
        for group in self._optimizer.param_groups:
            if PEAK in group:
                own_warmup = group[WARMUP_EPOCHS]
                share = min(epochs / own_warmup, 1.0) if own_warmup else 1.0
                group["lr"] = group[PEAK] * share * decayed

    def after_epoch(self, epochs: int, dev_loss: float) -> None:
        """Reduce the learning rate if the dev loss does not improve. dev_loss: nan if there is none."""
        is_fixed = self._settings.decay == "linear" or epochs < self._settings.warmup_epochs
        if not is_fixed and not math.isnan(dev_loss):
            self._plateau.step(dev_loss)

    def _set(self, learning_rate: float) -> None:
        for group in self._optimizer.param_groups:
            if PEAK not in group:
                group["lr"] = learning_rate
