"""The gradients with which a plugin's `run` updates its parameters, whatever its `check` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from parser.speed.tasks.plugin import AnyPlugin, fingerprints


@runtime_checkable
class GivesGradients(Protocol):
    """A plugin with a method whose gradients do not reach PyTorch's optimizers like those of `none`."""

    def gradients(self, batch: Any) -> Sequence[Tensor] | None:
        """The gradients of `run`, before any update, in the order of the parameters of `none`.

        Returns None if the gradients that PyTorch's optimizers get can be compared.
        """


class ParameterGradient(NamedTuple):
    """The norms of one parameter's gradient, see `fingerprints`."""

    name: str
    """The plugin's name for the parameter, or its place among all parameters; and the shape."""
    positive: float
    negative: float


def gradients_of_run(plugin: AnyPlugin, batch: Any) -> list[ParameterGradient]:
    """The fingerprints of the gradients of all parameters, ordered by shape. No parameter is changed.

    Raises ValueError if no gradient can be compared.
    """
    given = plugin.gradients(batch) if isinstance(plugin, GivesGradients) else None
    if given is None:
        names = {id(parameter): name for name, parameter in _parameters(plugin)}
        sums = _given_to_optimizers(plugin, batch)
        named = [(names.get(id(parameter)), gradient) for parameter, gradient in sums.items()]
    else:
        named = [(None, gradient) for gradient in given]
    if not named:
        raise ValueError(
            "no gradient can be compared, because no optimizer of PyTorch made an update in `run`: update by "
            "one (torch.optim.SGD(parameters, lr)), or add a method `gradients(batch)`, see "
            "parser.speed.tasks.gradients.GivesGradients"
        )
    shapes = [
        (name or f"parameter {place} of {len(named)}", own) for place, (name, own) in enumerate(named, 1)
    ]
    ordered = sorted(shapes, key=lambda pair: tuple(pair[1].shape))
    norms = fingerprints(gradient for _, gradient in ordered).view(-1, 2).tolist()
    return [
        ParameterGradient(f"{name} {list(gradient.shape)}", *parts)
        for (name, gradient), parts in zip(ordered, norms, strict=True)
    ]


def _parameters(owner: object, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters in a plugin's attributes and in their own attributes, with names."""
    for attribute, value in vars(owner).items():
        own = f"{name}.{attribute}" if name else attribute
        if isinstance(value, nn.Module):
            yield from value.named_parameters(own)
        elif isinstance(value, Tensor):
            yield own, value
        elif not name and hasattr(value, "__dict__"):
            yield from _parameters(value, own)


def _given_to_optimizers(plugin: AnyPlugin, batch: Any) -> dict[Tensor, Tensor]:
    """The gradients by parameter that PyTorch's optimizers get in `run`.

    They are summed over all updates in `run`; no update is made.
    """
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
    return sums
