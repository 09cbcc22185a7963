"""The gradients with which a plugin's `run` updates its parameters, whatever its `check` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from parser.benchmarks.plugin import AnyPlugin, fingerprints


@runtime_checkable
class GivesGradients(Protocol):
    """A plugin with a method whose gradients optimizers of PyTorch do not show as those of `none`."""

    def gradients(self, batch: Any) -> Sequence[Tensor] | None:
        """The gradients of `run`, before any update, in the order of the parameters of `none`.

        None if those that optimizers of PyTorch get can be compared.
        """


def gradients_of_run(plugin: AnyPlugin, batch: Any) -> list[float]:
    """Fingerprints of the gradients of all parameters, ordered by shape. No parameter is changed."""
    found = plugin.gradients(batch) if isinstance(plugin, GivesGradients) else None
    if found is None:
        found = _given_to_optimizers(plugin, batch)
    ordered = sorted(found, key=lambda gradient: tuple(gradient.shape))
    return fingerprints(ordered).tolist()


def _given_to_optimizers(plugin: AnyPlugin, batch: Any) -> list[Tensor]:
    """What the optimizers of PyTorch get in `run`, summed over its updates, of which none is made."""
    sums: dict[Tensor, Tensor] = {}
    hidden: list[tuple[Tensor, Tensor]] = []

    def before(optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                total = sums.setdefault(parameter, torch.zeros_like(parameter, requires_grad=False))
                if parameter.grad is not None:
                    total += parameter.grad
                    hidden.append((parameter, parameter.grad))
                    parameter.grad = None  # so that the optimizer leaves the parameter as it is

    def after(*_: object) -> None:
        while hidden:
            parameter, gradient = hidden.pop()
            parameter.grad = gradient

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        plugin.run(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return list(sums.values())
