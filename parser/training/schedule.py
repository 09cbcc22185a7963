"""The learning rate: linear warm-up, then ReduceLROnPlateau on the dev loss, or linear decay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from parser.training.config import TrainingSettings
from parser.training.optimizer import PEAK, WARMUP_EPOCHS, LearningRateSettings


def peak_learning_rate(settings: TrainingSettings) -> float:
    """The peak set in the config, or by the rule of Ding & Koehn 2019: min(start x batch size, 0.02)."""
    if settings.learning_rate.peak == "paper":
        return min(settings.learning_rate.start * settings.batch_size, 0.02)
    return settings.learning_rate.peak


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
